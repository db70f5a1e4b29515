/* A wall clock that a test sets. The file that WALL_CLOCK names holds a number of nanoseconds, by which the time that a
   program sees is ahead of the machine's. The test overwrites it while the program runs. The monotonic clocks are the
   machine's.

   Timers are as in timerfd_create(2): one for a time of the wall clock ends at that time of the set clock, and one with
   TFD_TIMER_CANCEL_ON_SET is cancelled when the clock is set, which fails the next read or timerfd_settime with
   ECANCELED. Loaded before the program's own libraries. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define MOST 16

struct timer {
    int fd, flags, is_cancelled;
    int64_t at, known; /* its time, 0 for none, and the offset by which it was last set or cancelled */
};

static const volatile int64_t *file;
static struct timer timers[MOST];
static int count, has_watcher;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("WALL_CLOCK");
    long fd = path == NULL ? -1 : syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    void *at = mmap(NULL, sizeof *file, PROT_READ, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) file = at;
    syscall(SYS_close, fd);
}

static int64_t offset(void) {
    return file == NULL ? 0 : __atomic_load_n(file, __ATOMIC_RELAXED);
}

static int64_t nanoseconds(const struct timespec *time) {
    return time->tv_sec * SECOND + time->tv_nsec;
}

static void set(struct timespec *time, int64_t at) {
    time->tv_sec = at / SECOND;
    time->tv_nsec = at % SECOND;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = syscall(SYS_clock_gettime, clock, time);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        set(time, nanoseconds(time) + offset());
    return failed;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *to) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to != NULL) *to = now.tv_sec;
    return now.tv_sec;
}

/* Sets the kernel's timer by the machine's clock, which nobody sets. */
static long arm(const struct timer *timer) {
    struct itimerspec wanted = {0};
    int64_t at = timer->at - timer->known;
    if (timer->is_cancelled) at = 1;
    if (timer->at != 0 || timer->is_cancelled) set(&wanted.it_value, at > 0 ? at : 1);
    return syscall(SYS_timerfd_settime, timer->fd, TFD_TIMER_ABSTIME, &wanted, NULL);
}

/* Notices that the clock was set since the last look. */
static void look(struct timer *timer) {
    int64_t now = offset();
    if (timer->known == now) return;
    timer->known = now;
    if (timer->flags & TFD_TIMER_CANCEL_ON_SET) timer->is_cancelled = 1;
}

static void *watch(void *unused) {
    struct timespec pause = {0, 2000000};
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&lock);
        for (int at = 0; at < count; at++) {
            int64_t known = timers[at].known;
            look(&timers[at]);
            if (known != timers[at].known) arm(&timers[at]);
        }
        pthread_mutex_unlock(&lock);
        syscall(SYS_nanosleep, &pause, NULL);
    }
    return NULL;
}

static struct timer *find(int fd) {
    for (int at = 0; at < count; at++)
        if (timers[at].fd == fd) return &timers[at];
    return NULL;
}

int timerfd_create(clockid_t clock, int flags) {
    int fd = syscall(SYS_timerfd_create, clock, flags);
    if (fd < 0 || clock != CLOCK_REALTIME || file == NULL) return fd;
    pthread_mutex_lock(&lock);
    struct timer *timer = find(fd);
    if (timer == NULL && count < MOST) timer = &timers[count++];
    if (timer == NULL) abort();
    *timer = (struct timer){.fd = fd, .known = offset()};
    pthread_t thread;
    if (!has_watcher && pthread_create(&thread, NULL, watch, NULL) != 0) abort();
    has_watcher = 1;
    pthread_mutex_unlock(&lock);
    return fd;
}

int timerfd_settime(int fd, int flags, const struct itimerspec *wanted, struct itimerspec *old) {
    pthread_mutex_lock(&lock);
    struct timer *timer = flags & TFD_TIMER_ABSTIME ? find(fd) : NULL;
    long failed;
    if (timer == NULL) {
        failed = syscall(SYS_timerfd_settime, fd, flags, wanted, old);
    } else {
        timer->flags = flags;
        timer->at = nanoseconds(&wanted->it_value);
        look(timer);
        /* As in the kernel, the timer runs all the same. */
        int was_cancelled = timer->is_cancelled;
        timer->is_cancelled = 0;
        failed = arm(timer);
        if (!failed && was_cancelled) {
            errno = ECANCELED;
            failed = -1;
        }
    }
    pthread_mutex_unlock(&lock);
    return failed;
}

/* Its number may be given to something else. */
int close(int fd) {
    if (count != 0) {
        pthread_mutex_lock(&lock);
        struct timer *timer = find(fd);
        if (timer != NULL) *timer = timers[--count];
        pthread_mutex_unlock(&lock);
    }
    return syscall(SYS_close, fd);
}

ssize_t read(int fd, void *to, size_t size) {
    ssize_t got = syscall(SYS_read, fd, to, size);
    if (got <= 0 || count == 0) return got;
    pthread_mutex_lock(&lock);
    struct timer *timer = find(fd);
    if (timer != NULL && timer->is_cancelled) {
        timer->is_cancelled = 0;
        arm(timer);
        errno = ECANCELED;
        got = -1;
    }
    pthread_mutex_unlock(&lock);
    return got;
}
