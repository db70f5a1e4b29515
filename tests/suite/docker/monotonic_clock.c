/* A monotonic clock that a test sets forward. The file that MONOTONIC_CLOCK names holds a number of nanoseconds, by which the
   time that a program sees is ahead of the machine's. The test overwrites it while the program runs. The wall clock and the time
   since the start of the machine are the machine's.

   Threads of the Rust standard library wait until a time of the clock. Each such wait takes as long as it would without the file.
   Loaded before the program's own libraries. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static const volatile int64_t *file;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("MONOTONIC_CLOCK");
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    void *at = mmap(NULL, sizeof *file, PROT_READ, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) file = at;
    close(fd);
}

static struct timespec later(struct timespec time, int64_t nanoseconds) {
    int64_t at = time.tv_sec * SECOND + time.tv_nsec + nanoseconds;
    if (at < 0) at = 0;
    return (struct timespec){.tv_sec = at / SECOND, .tv_nsec = at % SECOND};
}

static int64_t offset(void) {
    return file == NULL ? 0 : __atomic_load_n(file, __ATOMIC_RELAXED);
}

long syscall(long number, ...) {
    static long (*next)(long, ...);
    long words[6];
    va_list list;
    va_start(list, number);
    for (int at = 0; at < 6; at++) words[at] = va_arg(list, long);
    va_end(list);
    if (next == NULL) next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    struct timespec until;
    if (number == SYS_futex && (words[1] & ~FUTEX_PRIVATE_FLAG) == FUTEX_WAIT_BITSET && words[3] != 0) {
        until = later(*(const struct timespec *)words[3], -offset());
        words[3] = (long)&until;
    }
    return next(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = syscall(SYS_clock_gettime, clock, time);
    if (!failed && (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE)) *time = later(*time, offset());
    return failed;
}
