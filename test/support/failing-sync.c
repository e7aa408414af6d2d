/*
 * Preloaded into Headgate: fdatasync fails with EIO, as on a disk that cannot write, for a file whose name contains the first line of
 * the file HEADGATE_TEST_FAIL. Each such call appends a line to that file.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fdatasync(int fd) {
  int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  const char *control = getenv("HEADGATE_TEST_FAIL");
  char wanted[256] = "", link[64], path[4096] = "";
  FILE *file = control == NULL ? NULL : fopen(control, "r+");
  if (file == NULL) return sync(fd);
  if (fgets(wanted, sizeof wanted, file) != NULL) wanted[strcspn(wanted, "\n")] = '\0';
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  int fails = length > 0 && wanted[0] != '\0' && strstr(path, wanted) != NULL;
  if (fails) {
    fseek(file, 0, SEEK_END);
    fprintf(file, "%s\n", path);
  }
  fclose(file);
  if (!fails) return sync(fd);
  errno = EIO;
  return -1;
}
