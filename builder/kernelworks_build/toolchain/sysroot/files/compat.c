/* What a program linked to glibc 2.28 finds in libc_nonshared.a, and the few newer names that gcc 12's libstdc++.a
   asks for, over what every libc.so.6 since 2.28 exports. Compiled with -fvisibility=hidden: nothing is exported. */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct stat;

extern void *__dso_handle __attribute__((visibility("hidden")));
extern int __cxa_atexit(void (*)(void *), void *, void *);
extern int __cxa_at_quick_exit(void (*)(void *), void *);
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *);
extern int __xstat(int, const char *, struct stat *);
extern int __lxstat(int, const char *, struct stat *);
extern int __fxstat(int, int, struct stat *);
extern int __fxstatat(int, int, const char *, struct stat *, int);
extern int __xmknod(int, const char *, mode_t, dev_t *);
extern int __xmknodat(int, int, const char *, mode_t, dev_t *);
extern ssize_t getrandom(void *, size_t, unsigned);

enum { STAT_VERSION = 1, MKNOD_VERSION = 0 };

/* 0: other threads may run. Always true, only slower than asking. */
char __libc_single_threaded = 0;

int atexit(void (*f)(void)) { return __cxa_atexit((void (*)(void *))f, NULL, __dso_handle); }
int at_quick_exit(void (*f)(void)) { return __cxa_at_quick_exit((void (*)(void *))f, __dso_handle); }

int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
  return __register_atfork(prepare, parent, child, __dso_handle);
}

/* struct stat and struct stat64 are the same on x86_64. */
int stat(const char *path, struct stat *out) { return __xstat(STAT_VERSION, path, out); }
int lstat(const char *path, struct stat *out) { return __lxstat(STAT_VERSION, path, out); }
int fstat(int fd, struct stat *out) { return __fxstat(STAT_VERSION, fd, out); }
int fstatat(int fd, const char *path, struct stat *out, int flags) {
  return __fxstatat(STAT_VERSION, fd, path, out, flags);
}
int stat64(const char *, struct stat *) __attribute__((alias("stat")));
int lstat64(const char *, struct stat *) __attribute__((alias("lstat")));
int fstat64(int, struct stat *) __attribute__((alias("fstat")));
int fstatat64(int, const char *, struct stat *, int) __attribute__((alias("fstatat")));

int mknod(const char *path, mode_t mode, dev_t device) { return __xmknod(MKNOD_VERSION, path, mode, &device); }
int mknodat(int fd, const char *path, mode_t mode, dev_t device) {
  return __xmknodat(MKNOD_VERSION, fd, path, mode, &device);
}

uint32_t arc4random(void) {
  uint32_t value;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}
