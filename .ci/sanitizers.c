// Linked into every program that `.ci/long` builds with a sanitizer.

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

// The options are in the program, because most tests start it without the variables of their own environment. A report
// is written to a file, because no test reads everything that a program writes to stderr. What is not freed at the end
// is no error.
#define OPTIONS "log_path=" REPORTS "/report:log_exe_name=1:allocator_may_return_null=1:detect_leaks=0"

const char *__asan_default_options(void) { return OPTIONS ":detect_stack_use_after_return=1:quarantine_size_mb=16"; }

// The warden forks while threads run, and its child runs little but system calls.
const char *__tsan_default_options(void) { return OPTIONS ":die_after_fork=0"; }

// The limits of a jq program are not set that the sanitizer would exceed itself: it reserves terabytes and writes files.
int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit) {
  if (resource == RLIMIT_AS || resource == RLIMIT_DATA) return 0;
  if (limit->rlim_max == 0 && (resource == RLIMIT_FSIZE || resource == RLIMIT_NOFILE)) return 0;
  return syscall(SYS_prlimit64, 0, resource, limit, (void *)0);
}
