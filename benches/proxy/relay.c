/* A bare relay between its own stdin and stdout and those of a child process: poll, read, write. It looks at nothing.
 * It is what a proxy would cost that has nothing to do. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#define SIZE (256 << 10)

struct direction {
    int in, out;
    char *buffer;
    size_t start, end;
};

static int set_up(int fd) {
    fcntl(fd, F_SETPIPE_SZ, SIZE);
    return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* Returns 0 at the end of the input. */
static int advance(struct direction *d) {
    if (d->start == d->end) {
        ssize_t n = read(d->in, d->buffer, SIZE);
        if (n == 0) return 0;
        if (n < 0) return 1;
        d->start = 0;
        d->end = n;
    }
    ssize_t n = write(d->out, d->buffer + d->start, d->end - d->start);
    if (n > 0) d->start += n;
    return 1;
}

int main(int argc, char **argv) {
    int to_child[2], from_child[2];
    if (argc < 2 || pipe2(to_child, O_CLOEXEC) || pipe2(from_child, O_CLOEXEC)) return 1;
    if (fork() == 0) {
        dup2(to_child[0], 0);
        dup2(from_child[1], 1);
        execvp(argv[1], argv + 1);
        _exit(127);
    }
    close(to_child[0]);
    close(from_child[1]);
    struct direction both[] = {{0, to_child[1], malloc(SIZE), 0, 0}, {from_child[0], 1, malloc(SIZE), 0, 0}};
    int fds[] = {0, 1, to_child[1], from_child[0]};
    for (int i = 0; i < 4; i++) set_up(fds[i]);
    for (;;) {
        struct pollfd polled[2];
        for (int i = 0; i < 2; i++) {
            int waits_for_room = both[i].start < both[i].end;
            polled[i].fd = waits_for_room ? both[i].out : both[i].in;
            polled[i].events = waits_for_room ? POLLOUT : POLLIN;
        }
        if (poll(polled, 2, -1) < 0) return 1;
        for (int i = 0; i < 2; i++)
            if (polled[i].revents && !advance(&both[i])) return 0;
    }
}
