/* LD_PRELOAD library: one call of the C library on a file below a folder fails, is cut short, or ends the process.

   A process arms the library and then does its work. Calls are counted in memory that its parent shares, so that the
   parent knows how many there were although the process was killed. Calls within the C library (fopen, getcwd) are not
   seen; CPython, pyarrow, SQLite and DuckDB use those below. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind {
    WRITE = 1, SYNC = 2, RENAME = 4, CREATE = 8, TRUNCATE = 16, REMOVE = 32, READ = 64, OPEN = 128, STAMP = 256, FOLDER = 512,
    COPY = 1024
};
enum action { COUNT, FAIL, FAIL_FROM, CUT_FROM, KILL, CUT_AND_KILL };

struct shared {
    long calls;             /* of the kinds that count */
    char hit[2 * PATH_MAX]; /* the call that failed first, and its file */
};

static struct shared *shared;
static char root[PATH_MAX];
static int armed, kinds, action, error;
static long at; /* 1 is the first call */

__attribute__((constructor)) static void begin(void) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

void arm(const char *folder, int kinds_, int action_, int error_, long at_) {
    snprintf(root, sizeof root, "%s", folder);
    kinds = kinds_, action = action_, error = error_, at = at_;
    memset(shared, 0, sizeof *shared);
    armed = 1;
}

void disarm(void) { armed = 0; }
long calls(void) { return shared->calls; }
const char *hit(void) { return shared->hit; }

static int below(const char *path) {
    size_t length = strlen(root);
    return strncmp(path, root, length) == 0 && (path[length] == 0 || path[length] == '/');
}

/* Whether a path, which may be relative to a descriptor or to the working folder, is below the folder. */
static int concerns(int folder, const char *path, char *whole) {
    char link[64];
    ssize_t length;
    if (path != NULL && path[0] == '/') {
        snprintf(whole, PATH_MAX, "%s", path);
        return below(whole);
    }
    snprintf(link, sizeof link, folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
    length = readlink(link, whole, PATH_MAX - 1);
    if (length < 0) return 0;
    whole[length] = 0;
    if (path != NULL) snprintf(whole + length, PATH_MAX - length, "/%s", path);
    return below(whole);
}

static void end(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Returns 0 for a call that is carried out, 1 for one that fails, 2 for a write of the first half. */
static int meet(enum kind kind, const char *name, int folder, const char *path) {
    char whole[PATH_MAX];
    int saved = errno;
    long number;
    if (!armed || !(kinds & kind) || !concerns(folder, path, whole)) {
        errno = saved;
        return 0;
    }
    errno = saved;
    number = __sync_add_and_fetch(&shared->calls, 1);
    if (action == COUNT || number < at) return 0;
    if (number > at && action != FAIL_FROM && action != CUT_FROM) return 0;
    if (number == at) snprintf(shared->hit, sizeof shared->hit, "%s %s", name, whole);
    if (action == KILL) end();
    if (action == CUT_FROM || action == CUT_AND_KILL) return 2;
    errno = error;
    return 1;
}

#define REAL(type, name, ...)                                    \
    static type (*real)(__VA_ARGS__);                            \
    if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

#define WRITER(name, last_parameter, last)                                                         \
    ssize_t name(int file, const void *data, size_t size last_parameter) {                         \
        REAL(ssize_t, name, int, const void *, size_t last_parameter);                             \
        int met = file > 2 ? meet(WRITE, #name, file, NULL) : 0;                                   \
        ssize_t written;                                                                           \
        if (met == 1) return -1;                                                                   \
        written = real(file, data, met == 2 && size > 1 ? size / 2 : size last);                   \
        if (met == 2 && action == CUT_AND_KILL) end();                                             \
        return written;                                                                            \
    }
#define NOTHING
#define OFFSET_PARAMETER , off64_t offset
#define OFFSET , offset
WRITER(write, NOTHING, NOTHING)
WRITER(pwrite, OFFSET_PARAMETER, OFFSET)
WRITER(pwrite64, OFFSET_PARAMETER, OFFSET)

/* A call of one or two paths or descriptors. */
#define CALL(kind, type, failed, name, parameters, types, arguments, folder, path)  \
    type name parameters {                                                          \
        static type(*real) types;                                                   \
        if (!real) real = (type(*) types)dlsym(RTLD_NEXT, #name);                   \
        return meet(kind, #name, folder, path) ? failed : real arguments;           \
    }
CALL(COPY, ssize_t, -1, writev, (int f, const struct iovec *v, int n), (int, const struct iovec *, int), (f, v, n), f, NULL)
CALL(COPY, ssize_t, -1, sendfile64, (int to, int from, off64_t *o, size_t n), (int, int, off64_t *, size_t), (to, from, o, n), to, NULL)
CALL(COPY, ssize_t, -1, sendfile, (int to, int from, off_t *o, size_t n), (int, int, off_t *, size_t), (to, from, o, n), to, NULL)
CALL(COPY, ssize_t, -1, copy_file_range, (int from, off64_t *o, int to, off64_t *p, size_t n, unsigned g), (int, off64_t *, int, off64_t *, size_t, unsigned), (from, o, to, p, n, g), to, NULL)
CALL(READ, ssize_t, -1, read, (int f, void *d, size_t n), (int, void *, size_t), (f, d, n), f, NULL)
CALL(READ, ssize_t, -1, pread64, (int f, void *d, size_t n, off64_t o), (int, void *, size_t, off64_t), (f, d, n, o), f, NULL)
/* What a killed process wrote is kept without them: the tests need not wait for a disk. */
int fsync(int file) { return meet(SYNC, "fsync", file, NULL) ? -1 : 0; }
int fdatasync(int file) { return meet(SYNC, "fdatasync", file, NULL) ? -1 : 0; }
CALL(TRUNCATE, int, -1, ftruncate, (int f, off_t n), (int, off_t), (f, n), f, NULL)
CALL(TRUNCATE, int, -1, ftruncate64, (int f, off64_t n), (int, off64_t), (f, n), f, NULL)
CALL(TRUNCATE, int, -1, fallocate64, (int f, int m, off64_t o, off64_t n), (int, int, off64_t, off64_t), (f, m, o, n), f, NULL)
CALL(STAMP, int, -1, utimensat, (int d, const char *p, const struct timespec t[2], int g), (int, const char *, const struct timespec[2], int), (d, p, t, g), d, p)
CALL(STAMP, int, -1, futimens, (int f, const struct timespec t[2]), (int, const struct timespec[2]), (f, t), f, NULL)
CALL(STAMP, int, -1, fchmodat, (int d, const char *p, mode_t m, int g), (int, const char *, mode_t, int), (d, p, m, g), d, p)
CALL(STAMP, int, -1, chmod, (const char *p, mode_t m), (const char *, mode_t), (p, m), AT_FDCWD, p)
CALL(RENAME, int, -1, rename, (const char *a, const char *b), (const char *, const char *), (a, b), AT_FDCWD, b)
CALL(RENAME, int, -1, renameat, (int d, const char *a, int e, const char *b), (int, const char *, int, const char *), (d, a, e, b), e, b)
CALL(RENAME, int, -1, link, (const char *a, const char *b), (const char *, const char *), (a, b), AT_FDCWD, b)
CALL(RENAME, int, -1, linkat, (int d, const char *a, int e, const char *b, int g), (int, const char *, int, const char *, int), (d, a, e, b, g), e, b)
CALL(RENAME, int, -1, symlink, (const char *a, const char *b), (const char *, const char *), (a, b), AT_FDCWD, b)
CALL(RENAME, int, -1, symlinkat, (const char *a, int e, const char *b), (const char *, int, const char *), (a, e, b), e, b)
CALL(FOLDER, int, -1, mkdir, (const char *p, mode_t m), (const char *, mode_t), (p, m), AT_FDCWD, p)
CALL(FOLDER, int, -1, mkdirat, (int d, const char *p, mode_t m), (int, const char *, mode_t), (d, p, m), d, p)
CALL(REMOVE, int, -1, unlink, (const char *p), (const char *), (p), AT_FDCWD, p)
CALL(REMOVE, int, -1, unlinkat, (int d, const char *p, int g), (int, const char *, int), (d, p, g), d, p)
CALL(REMOVE, int, -1, rmdir, (const char *p), (const char *), (p), AT_FDCWD, p)
CALL(OPEN, DIR *, NULL, opendir, (const char *p), (const char *), (p), AT_FDCWD, p)
CALL(OPEN, DIR *, NULL, fdopendir, (int f), (int), (f), f, NULL)

#define OPENER(name, parameters, types, arguments, folder)                                   \
    int name parameters {                                                                    \
        static int(*real) types;                                                             \
        va_list list;                                                                        \
        int mode;                                                                            \
        va_start(list, flags);                                                               \
        mode = va_arg(list, int);                                                            \
        va_end(list);                                                                        \
        if (!real) real = (int(*) types)dlsym(RTLD_NEXT, #name);                             \
        return meet(flags & O_CREAT ? CREATE : OPEN, #name, folder, path) ? -1 : real arguments; \
    }
OPENER(open, (const char *path, int flags, ...), (const char *, int, ...), (path, flags, mode), AT_FDCWD)
OPENER(open64, (const char *path, int flags, ...), (const char *, int, ...), (path, flags, mode), AT_FDCWD)
OPENER(openat, (int at_, const char *path, int flags, ...), (int, const char *, int, ...), (at_, path, flags, mode), at_)
OPENER(openat64, (int at_, const char *path, int flags, ...), (int, const char *, int, ...), (at_, path, flags, mode), at_)
