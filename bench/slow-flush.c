/* Preloaded into PostgreSQL: simulates a disk on which each flush of the log takes HEADGATE_FLUSH_US microseconds more. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

int fdatasync(int fd) {
  static int (*flush)(int);
  static long microseconds;
  if (flush == NULL) {
    const char *more = getenv("HEADGATE_FLUSH_US");
    microseconds = more == NULL ? 0 : atol(more);
    flush = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  }
  struct timespec pause = {microseconds / 1000000, microseconds % 1000000 * 1000};
  nanosleep(&pause, NULL);
  return flush(fd);
}
