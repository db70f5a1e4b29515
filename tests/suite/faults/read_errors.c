/* A disk that fails to read. For as long as the file is there that READ_ERRORS names, whatever a program reads or maps of a
   file whose path ends with one of that file's lines fails with EIO; where a line ends with @ and a number, only what holds
   the byte at that number. Loaded before the program's own libraries. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static const char *list;

__attribute__((constructor)) static void begin(void) {
    list = getenv("READ_ERRORS");
}

static int fails_at(int fd, off_t at, size_t wanted) {
    char lines[1024], link[64], path[4096], *bad;
    int before = errno, found = 0;
    if (list == NULL || fd < 0) return 0;
    long file = syscall(SYS_openat, AT_FDCWD, list, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        errno = before;
        return 0;
    }
    long count = syscall(SYS_read, file, lines, sizeof lines - 1);
    syscall(SYS_close, file);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = count > 0 ? readlink(link, path, sizeof path) : -1;
    lines[count > 0 ? count : 0] = 0;
    for (char *rest = lines, *line; length > 0 && !found && (line = strsep(&rest, "\n"));) {
        if ((bad = strchr(line, '@')) != NULL) {
            *bad++ = 0;
            off_t byte = atoll(bad);
            if (byte < at || byte - at >= (off_t)wanted) continue;
        }
        size_t size = strlen(line);
        found = size > 0 && size <= (size_t)length && memcmp(path + length - size, line, size) == 0;
    }
    errno = found ? EIO : before;
    return found;
}

static int fails(int fd, size_t wanted) {
    int before = errno;
    off_t at = list == NULL || fd < 0 ? -1 : lseek(fd, 0, SEEK_CUR);
    errno = before;
    return fails_at(fd, at < 0 ? 0 : at, wanted);
}

ssize_t read(int fd, void *to, size_t size) {
    return fails(fd, size) ? -1 : syscall(SYS_read, fd, to, size);
}

ssize_t pread64(int fd, void *to, size_t size, off_t at) {
    return fails_at(fd, at, size) ? -1 : syscall(SYS_pread64, fd, to, size, at);
}

ssize_t pread(int fd, void *to, size_t size, off_t at) {
    return pread64(fd, to, size, at);
}

ssize_t readv(int fd, const struct iovec *to, int count) {
    return fails(fd, SSIZE_MAX) ? -1 : syscall(SYS_readv, fd, to, count);
}

ssize_t copy_file_range(int from, off_t *from_at, int to, off_t *to_at, size_t size, unsigned flags) {
    return fails(from, SSIZE_MAX) ? -1 : syscall(SYS_copy_file_range, from, from_at, to, to_at, size, flags);
}

void *mmap(void *at, size_t size, int rights, int flags, int fd, off_t from) {
    return fails_at(fd, from, size) ? MAP_FAILED : (void *)syscall(SYS_mmap, at, size, rights, flags, fd, from);
}

void *mmap64(void *at, size_t size, int rights, int flags, int fd, off_t from) {
    return mmap(at, size, rights, flags, fd, from);
}
