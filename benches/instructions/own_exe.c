/* Under valgrind, /proc/self/exe is valgrind itself. This library makes a program that starts itself find itself. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char program[4096];

__attribute__((constructor)) static void remember(void) {
    const char *given = getenv("COUNTED_PROGRAM");
    if (given) strncpy(program, given, sizeof program - 1);
}

static const char *own(const char *path) {
    return *program && !strcmp(path, "/proc/self/exe") ? program : path;
}

typedef int spawn_fn(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                     char *const[], char *const[]);

int posix_spawnp(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const argv[], char *const env[]) {
    spawn_fn *next = dlsym(RTLD_NEXT, "posix_spawnp");
    return next(pid, own(path), actions, attributes, argv, env);
}

/* After fork, with the environment of the child. */
int execvp(const char *path, char *const argv[]) {
    int (*next)(const char *, char *const[]) = dlsym(RTLD_NEXT, "execvp");
    return next(own(path), argv);
}
