/* A hostile program: runs code of 512 files at paths of 3,300 bytes, and changes their ctime all
 * the time, so that each tick finds mappings and files that it has not seen.
 *
 *     mapping_flood DIRECTORY SECONDS
 *
 * The code of each file is one function without unwind information that calls the one of the next
 * file. Prints "running" when it begins, and at the end how many calls it made. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES 512
#define CHAIN 48 /* functions of one stack */
#define COMPONENT 240
#define COMPONENTS 13

typedef long (*function)(void** next, long spins);

static int descriptors[FILES];
static void* code[FILES];
static volatile int is_over;

static void must(int ok, const char* what) {
  if (ok) return;
  perror(what);
  exit(1);
}

/* push rbp; mov rbp, rsp; mov rax, [rdi]; test rax, rax; jz spin; add rdi, 8; call rax; pop rbp;
 * ret; spin: dec rsi; jnz spin; pop rbp; ret */
static const uint8_t text[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x07, 0x48, 0x85,
                               0xc0, 0x74, 0x08, 0x48, 0x83, 0xc7, 0x08, 0xff, 0xd0,
                               0x5d, 0xc3, 0x48, 0xff, 0xce, 0x75, 0xfb, 0x5d, 0xc3};

static void go_down(const char* directory) {
  char name[COMPONENT + 1];

  must(mkdir(directory, 0755) == 0 && chdir(directory) == 0, directory);
  for (int i = 0; i < COMPONENTS; i++) {
    memset(name, 'a' + i, COMPONENT);
    name[COMPONENT] = 0;
    must(mkdir(name, 0755) == 0 && chdir(name) == 0, "mkdir");
  }
}

static void make_file(int i) {
  char name[COMPONENT];

  memset(name, 'z', sizeof(name));
  snprintf(name + 200, 16, "%03d", i);
  descriptors[i] = open(name, O_CREAT | O_RDWR | O_EXCL, 0755);
  must(descriptors[i] >= 0 && ftruncate(descriptors[i], 4096) == 0, name);
  must(pwrite(descriptors[i], text, sizeof(text), 0) == sizeof(text), "pwrite");
  code[i] = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, descriptors[i], 0);
  must(code[i] != MAP_FAILED, "mmap");
}

static void* change_files(void* unused) {
  (void)unused;
  for (unsigned i = 0; !is_over; i++) fchmod(descriptors[i % FILES], i & FILES ? 0700 : 0755);
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t changer;
  long calls = 0;

  must(argc == 3, "usage");
  go_down(argv[1]);
  for (int i = 0; i < FILES; i++) make_file(i);
  const time_t end = time(NULL) + atoi(argv[2]);

  must(pthread_create(&changer, NULL, change_files, NULL) == 0, "pthread_create");
  puts("running");
  fflush(stdout);
  for (unsigned first = 0; time(NULL) < end; first += CHAIN, calls++) {
    void* chain[CHAIN + 1];

    for (int i = 0; i < CHAIN; i++) chain[i] = code[(first + i) % FILES];
    chain[CHAIN] = NULL;
    ((function)chain[0])(chain + 1, 20000);
  }
  is_over = 1;
  pthread_join(changer, NULL);
  printf("%ld calls\n", calls);
  return 0;
}
