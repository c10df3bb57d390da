/* A hostile program that exports what CPython 3.11 exports, and whose memory is none of an
 * interpreter: each mode is one lie that a profiler can fall for.
 *
 *     forged_python MODE SECONDS [FILE]
 *     forged_python files SECONDS LIBRARY DIRECTORY COUNT
 *
 * Prints "running" when it begins. Exits with 77 where the host lacks what the mode needs. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forged_symbols.h"

enum {
  PAGE = 4096,
  FRAME_BYTES = 96,
  CODE_BYTES = 512,
  UNITS = 64,
  TEXT_BYTES = 1 << 20,
  LONG_CHAIN = 10000,
  ABSENT = 77,
};

/* Offsets of CPython 3.11. */
enum {
  TSTATE_CFRAME = 56,
  TSTATE_THREAD_ID = 152,
  CFRAME_FRAME = 8,
  CFRAME_PREVIOUS = 16,
  FRAME_CODE = 32,
  FRAME_PREVIOUS = 48,
  FRAME_POSITION = 56,
  FRAME_IS_ENTRY = 68,
  OBJECT_TYPE = 8,
  OBJECT_SIZE = 16,
  CODE_FIRST_LINE = 72,
  CODE_FILE = 112,
  CODE_NAME = 120,
  CODE_QUALNAME = 128,
  CODE_LINES = 136,
  CODE_TEXT = 184,
  STR_STATE = 32,
  STR_ASCII_TEXT = 48,
  STR_OTHER_TEXT = 72,
  BYTES_DATA = 32,
};

/* Of a str: bytes a code point, compact, ASCII. */
enum {
  STATE_IS_ASCII = 1 << 6,
  STATE_LATIN_1 = (1 << 2) | (1 << 5),
  STATE_ASCII = STATE_LATIN_1 | STATE_IS_ASCII,
  STATE_UCS_2 = (2 << 2) | (1 << 5),
};

static char state[1024];
static char* codes;   /* LONG_CHAIN of them */
static char* frames;  /* likewise */
static long changing; /* codes that change all the time */

static void must(int ok, const char* what) {
  if (ok) return;
  perror(what);
  exit(1);
}

static void* map(size_t bytes, int protection) {
  void* place = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  must(place != MAP_FAILED, "mmap");
  return place;
}

static void put(void* object, size_t offset, const void* value) {
  memcpy((char*)object + offset, &value, sizeof(value));
}

static void put_number(void* object, size_t offset, uint64_t value) {
  memcpy((char*)object + offset, &value, sizeof(value));
}

static void* text_object(uint32_t text_state, uint64_t length, const void* text, size_t bytes) {
  char* object = map(STR_OTHER_TEXT + bytes + 16, PROT_READ | PROT_WRITE);

  put_number(object, OBJECT_SIZE, length);
  memcpy(object + STR_STATE, &text_state, sizeof(text_state));
  memcpy(object + (text_state & STATE_IS_ASCII ? STR_ASCII_TEXT : STR_OTHER_TEXT), text, bytes);
  return object;
}

static void* ascii(const char* text) {
  return text_object(STATE_ASCII, strlen(text), text, strlen(text));
}

static void* line_table(uint64_t length, const void* bytes, size_t count) {
  char* object = map(BYTES_DATA + count + 16, PROT_READ | PROT_WRITE);

  put_number(object, OBJECT_SIZE, length);
  memcpy(object + BYTES_DATA, bytes, count);
  return object;
}

static char* code_at(long i) { return codes + i * CODE_BYTES; }
static char* frame_at(long i) { return frames + i * FRAME_BYTES; }

static void make_code(char* code, long number, void* name, void* file, void* lines) {
  put(code, OBJECT_TYPE, PyCode_Type);
  put_number(code, OBJECT_SIZE, UNITS);
  const uint32_t first_line = (uint32_t)number + 1;
  memcpy(code + CODE_FIRST_LINE, &first_line, sizeof(first_line));
  put(code, CODE_FILE, file);
  put(code, CODE_NAME, name);
  put(code, CODE_QUALNAME, name);
  put(code, CODE_LINES, lines);
}

/* `previous` may be any address. */
static void make_frame(char* frame, const char* code, const void* previous, int is_entry) {
  put(frame, FRAME_CODE, code);
  put(frame, FRAME_PREVIOUS, previous);
  put(frame, FRAME_POSITION, code + CODE_TEXT + 4);
  frame[FRAME_IS_ENTRY] = (char)is_entry;
}

/* A sound chain of `count` frames, each a function of its own; returns the leaf. */
static char* make_chain(long count) {
  static const char lines[] = "\x9f\x00\x9f\x00\x9f\x00\x9f\x00"; /* eight units in each entry */
  void* file = ascii("/srv/forged.py");
  void* table = line_table(sizeof(lines) - 1, lines, sizeof(lines) - 1);

  for (long i = 0; i < count; i++) {
    char name[32];

    snprintf(name, sizeof(name), "forged_%ld", i);
    /* Of thousands, all have one name: a mapping each would be too many. */
    static void* shared_name;

    if (i == 100) shared_name = ascii("forged_many");
    make_code(code_at(i), i, i < 100 ? ascii(name) : shared_name, file, table);
    make_frame(frame_at(i), code_at(i), i > 0 ? frame_at(i - 1) : NULL, i == 0);
  }
  return frame_at(count - 1);
}

static char* make_honest(const char* file) {
  (void)file;
  return make_chain(10);
}

static char* make_cycle(const char* file) {
  (void)file;
  char* leaf = make_chain(10);

  put(frame_at(3), FRAME_PREVIOUS, leaf);
  return leaf;
}

static char* make_self_loop(const char* file) {
  (void)file;
  char* leaf = make_chain(10);

  put(leaf, FRAME_PREVIOUS, leaf);
  return leaf;
}

static char* make_long(const char* file) {
  (void)file;
  return make_chain(LONG_CHAIN);
}

/* Each frame and each code object on a page of its own: the most reads that a tick can need. */
static char* make_far(const char* file) {
  (void)file;
  (void)make_chain(2000);
  char* far = map(2000UL * 2 * PAGE, PROT_READ | PROT_WRITE);
  char* leaf = NULL;

  for (long i = 0; i < 2000; i++) {
    char* code = far + i * 2 * PAGE;
    char* frame = code + PAGE + i % 40 * FRAME_BYTES;

    memcpy(code, code_at(i), CODE_BYTES);
    make_frame(frame, code, leaf, i == 0);
    leaf = frame;
  }
  return leaf;
}

static char* end_at(const void* previous) {
  char* leaf = make_chain(10);

  put(frame_at(5), FRAME_PREVIOUS, previous);
  return leaf;
}

static char* make_wild(const char* file) {
  (void)file;
  return end_at((void*)0x123456789000);
}

static char* make_kernel(const char* file) {
  (void)file;
  return end_at((void*)0xffff888000000000);
}

static char* make_noncanonical(const char* file) {
  (void)file;
  return end_at((void*)0x8000000000000120);
}

static char* make_kernel_code(const char* file) {
  (void)file;
  char* leaf = make_chain(10);

  put(frame_at(5), FRAME_CODE, (void*)0xffffffff81000000);
  return leaf;
}

static char* make_protnone(const char* file) {
  (void)file;
  return end_at(map(PAGE, PROT_NONE));
}

/* The last frame ends where its page does; the next page is not there. */
static char* make_straddle(const char* file) {
  (void)file;
  char* pages = map(2 * PAGE, PROT_READ | PROT_WRITE);

  must(munmap(pages + PAGE, PAGE) == 0, "munmap");
  char* leaf = make_chain(10);

  put(frame_at(5), FRAME_PREVIOUS, pages + PAGE - 64);
  return leaf;
}

/* A page of a file whose server does not answer. */
static char* make_fuse(const char* file) {
  const int fd = open(file, O_RDONLY);

  must(fd >= 0, file);
  char* page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);

  must(page != MAP_FAILED && close(fd) == 0, "mmap");
  return end_at(page + 128);
}

static char* make_userfaultfd(const char* file) {
  (void)file;
  const int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
  struct uffdio_api api = {.api = UFFD_API};

  if (fd < 0 || ioctl(fd, UFFDIO_API, &api) != 0) exit(ABSENT);
  char* pages = map(4 * PAGE, PROT_READ | PROT_WRITE);
  struct uffdio_register range = {.range = {.start = (uintptr_t)pages, .len = 4 * PAGE},
                                  .mode = UFFDIO_REGISTER_MODE_MISSING};

  must(ioctl(fd, UFFDIO_REGISTER, &range) == 0, "UFFDIO_REGISTER");
  return end_at(pages + PAGE);
}

/* Texts of a mebibyte, all of which are there. */
static char* make_length(const char* file) {
  (void)file;
  char* leaf = make_chain(10);
  char* text = malloc(TEXT_BYTES);

  must(text != NULL, "malloc");
  memset(text, 'n', TEXT_BYTES);
  for (long i = 0; i < 10; i++) {
    put(code_at(i), CODE_NAME, text_object(STATE_ASCII, TEXT_BYTES, text, TEXT_BYTES));
    put(code_at(i), CODE_QUALNAME, text_object(STATE_LATIN_1, TEXT_BYTES, text, TEXT_BYTES));
    put(code_at(i), CODE_FILE, text_object(STATE_UCS_2, TEXT_BYTES / 2, text, TEXT_BYTES));
    put(code_at(i), CODE_LINES, line_table(TEXT_BYTES, text, TEXT_BYTES));
  }
  return leaf;
}

/* Lengths beyond all memory, of texts of a few bytes at the end of what is mapped. */
static char* make_huge_length(const char* file) {
  (void)file;
  char* leaf = make_chain(10);

  for (long i = 0; i < 10; i++) {
    put(code_at(i), CODE_NAME, text_object(STATE_ASCII, UINT64_MAX, "huge", 4));
    put(code_at(i), CODE_QUALNAME, text_object(STATE_ASCII, 1UL << 63, "huge", 4));
    put(code_at(i), CODE_LINES, line_table(UINT64_MAX, "\x80", 1));
  }
  return leaf;
}

/* What a terminal would obey, what is no code point, and a line table of all bytes. */
static char* make_control(const char* file) {
  (void)file;
  static const uint16_t surrogates[] = {'e', 'v', 0xd800, 0x1b, '[', '2', 'J', 0xdfff, 7, 'x'};
  char* leaf = make_chain(10);
  char table[256];

  for (int i = 0; i < 256; i++) table[i] = (char)(255 - i);
  for (long i = 0; i < 10; i++) {
    put(code_at(i), CODE_NAME, text_object(STATE_LATIN_1, 14, "ev\033[2Jx\007il\xff\n\r\t", 14));
    put(code_at(i), CODE_QUALNAME, text_object(STATE_UCS_2, 10, surrogates, sizeof(surrogates)));
    put(code_at(i), CODE_FILE, text_object(STATE_ASCII, 13, "so\033[31mur\n\0ce", 13));
    put(code_at(i), CODE_LINES, line_table(sizeof(table), table, sizeof(table)));
  }
  return leaf;
}

/* Texts that are no compact strings, as those of old C modules: there is nothing to read. */
static char* make_not_compact(const char* file) {
  (void)file;
  char* leaf = make_chain(10);

  for (long i = 0; i < 10; i++) put(code_at(i), CODE_NAME, text_object(1 << 2, 4, "four", 4));
  for (long i = 0; i < 10; i++) put(code_at(i), CODE_QUALNAME, text_object(0, 4, "four", 4));
  return leaf;
}

/* Names in memory that is not there. */
static char* make_absent_names(const char* file) {
  (void)file;
  char* leaf = make_chain(10);
  char* gone = map(PAGE, PROT_NONE);

  for (long i = 0; i < 10; i++) put(code_at(i), CODE_NAME, gone + 64 * i);
  for (long i = 0; i < 10; i++) put(code_at(i), CODE_QUALNAME, gone + 64 * i);
  return leaf;
}

/* All code objects are others at each tick: each has to be announced. */
static char* make_storm(const char* file) {
  (void)file;
  changing = 512;
  return make_chain(512);
}

/* Segments whose anchors the program chooses, `step` apart. */
static char* make_segments(long count, long step) {
  char* leaf = make_chain(count);
  char* cframes = (char*)map(2UL << 20, PROT_READ | PROT_WRITE) + (1L << 20);

  for (long i = 0; i < count; i++) {
    char* cframe = cframes + i * step;
    const long frame = count - 1 - i;

    frame_at(frame)[FRAME_IS_ENTRY] = 1;
    put(cframe, CFRAME_FRAME, frame_at(frame));
    put(cframe, CFRAME_PREVIOUS, i + 1 < count ? cframes + (i + 1) * step : NULL);
  }
  put(state, TSTATE_CFRAME, cframes);
  return leaf;
}

static char* make_falling_anchors(const char* file) {
  (void)file;
  (void)make_segments(20, -64);
  return NULL; /* the thread state is as it shall be */
}

static char* make_many_segments(const char* file) {
  (void)file;
  (void)make_segments(600, 64);
  return NULL;
}

static char* make_not_code(const char* file) {
  (void)file;
  char* leaf = make_chain(10);

  put(code_at(5), OBJECT_TYPE, state);
  return leaf;
}

static char* make_position(const char* file) {
  (void)file;
  char* leaf = make_chain(10);

  put(frame_at(5), FRAME_POSITION, code_at(5) + CODE_TEXT + 2 * UNITS + 2000);
  return leaf;
}

static char* make_mismatch(const char* file) {
  (void)file;
  put_number(state, TSTATE_THREAD_ID, 1);
  return make_chain(10);
}

/* The file has an interpreter, and this thread has no state. */
static char* make_no_state(const char* file) {
  (void)file;
  uint32_t key;

  memcpy(&key, _PyRuntime + RUNTIME_KEY, sizeof(key));
  pthread_setspecific(key, NULL);
  return make_chain(1);
}

static char* make_wild_state(const char* file) {
  uint32_t key;

  (void)file;
  memcpy(&key, _PyRuntime + RUNTIME_KEY, sizeof(key));
  pthread_setspecific(key, (void*)0x1000);
  return make_chain(1);
}

static char* make_wild_key(const char* file) {
  (void)file;
  const uint32_t key = 0xfffffff0;

  memcpy(_PyRuntime + RUNTIME_KEY, &key, sizeof(key));
  return make_chain(1);
}

static const struct {
  const char* name;
  char* (*make)(const char* file);
} modes[] = {
    {"honest", make_honest},
    {"cycle", make_cycle},
    {"self_loop", make_self_loop},
    {"long", make_long},
    {"far", make_far},
    {"wild", make_wild},
    {"kernel", make_kernel},
    {"noncanonical", make_noncanonical},
    {"kernel_code", make_kernel_code},
    {"protnone", make_protnone},
    {"straddle", make_straddle},
    {"fuse", make_fuse},
    {"userfaultfd", make_userfaultfd},
    {"length", make_length},
    {"huge_length", make_huge_length},
    {"control", make_control},
    {"not_compact", make_not_compact},
    {"absent_names", make_absent_names},
    {"storm", make_storm},
    {"falling_anchors", make_falling_anchors},
    {"many_segments", make_many_segments},
    {"not_code", make_not_code},
    {"position", make_position},
    {"mismatch", make_mismatch},
    {"no_state", make_no_state},
    {"wild_state", make_wild_state},
    {"wild_key", make_wild_key},
};

__attribute__((noinline)) static long forged_spin(long rounds) {
  volatile long total = 0;

  for (long i = 0; i < rounds; i++) total += i;
  for (long i = 0; i < changing; i++) {
    uint32_t line;

    memcpy(&line, code_at(i) + CODE_FIRST_LINE, sizeof(line));
    line += LONG_CHAIN;
    memcpy(code_at(i) + CODE_FIRST_LINE, &line, sizeof(line));
  }
  return total;
}

/* Its own frame has the anchor of the chain. */
__attribute__((noinline)) long _PyEval_EvalFrameDefault(char* leaf, long rounds) {
  char cframe[32] __attribute__((aligned(16))) = {0};

  if (leaf != NULL) {
    put(cframe, CFRAME_FRAME, leaf);
    put(state, TSTATE_CFRAME, cframe);
  }
  /* `cframe` has to be there until the end. */
  const long total = forged_spin(rounds);

  __asm__ volatile("" : : "r"(cframe) : "memory");
  return total;
}

static void run(char* leaf, int seconds) {
  const time_t end = time(NULL) + seconds;
  long total = 0;

  puts("running");
  fflush(stdout);
  while (time(NULL) < end) total += _PyEval_EvalFrameDefault(leaf, 200000);
  printf("%ld\n", total);
}

/* As the first state of an interpreter has it. */
static void make_state(void) {
  pthread_key_t key;

  must(pthread_key_create(&key, NULL) == 0, "pthread_key_create");
  const uint32_t number = key;

  memcpy(_PyRuntime + RUNTIME_KEY, &number, sizeof(number));
  put_number(state, TSTATE_THREAD_ID, (uint64_t)pthread_self());
  pthread_setspecific(key, state);
}

/* Moves the symbol PyCode_Type of a copy of the library, which makes it another interpreter. */
static void move_type(char* library, size_t bytes, uint64_t address, uint64_t distance) {
  for (size_t at = 0; at + sizeof(Elf64_Sym) <= bytes; at += 8) {
    Elf64_Sym symbol;

    memcpy(&symbol, library + at, sizeof(symbol));
    if (symbol.st_value != address || symbol.st_size != sizeof(PyCode_Type)) continue;
    symbol.st_value += distance;
    memcpy(library + at, &symbol, sizeof(symbol));
  }
}

static char* whole_file(const char* path, size_t* bytes) {
  struct stat status;
  const int fd = open(path, O_RDONLY);

  must(fd >= 0 && fstat(fd, &status) == 0, path);
  *bytes = (size_t)status.st_size;
  char* content = malloc(*bytes);

  must(content != NULL && read(fd, content, *bytes) == status.st_size, path);
  close(fd);
  return content;
}

static uint64_t address_in_file(const char* path, const char* symbol) {
  struct link_map* loaded = NULL;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

  must(library != NULL && dlinfo(library, RTLD_DI_LINKMAP, &loaded) == 0, path);
  return (uint64_t)(uintptr_t)dlsym(library, symbol) - loaded->l_addr;
}

typedef long (*loop)(long rounds);

static loop load_copy(const char* content, size_t bytes, const char* path) {
  const int fd = open(path, O_CREAT | O_WRONLY | O_EXCL, 0755);

  must(fd >= 0 && write(fd, content, bytes) == (ssize_t)bytes, path);
  close(fd);
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

  must(library != NULL, path);
  return (loop)(uintptr_t)dlsym(library, "_PyEval_EvalFrameDefault");
}

static int run_files(int seconds, const char* path, const char* directory, long count) {
  size_t bytes;
  char* content = whole_file(path, &bytes);
  const uint64_t address = address_in_file(path, "PyCode_Type");
  loop* loops = calloc((size_t)count, sizeof(*loops));

  must(loops != NULL && count > 0 && count < TYPE_WORDS - 16, "count");
  for (long i = 0; i < count; i++) {
    char copy[PAGE];

    snprintf(copy, sizeof(copy), "%s/%ld.so", directory, i);
    move_type(content, bytes, address + (uint64_t)(i > 0 ? i - 1 : 0) * 8, i > 0 ? 8 : 0);
    loops[i] = load_copy(content, bytes, copy);
  }
  puts("running");
  fflush(stdout);
  const time_t end = time(NULL) + seconds;
  long total = 0;

  for (long i = 0; time(NULL) < end; i++) total += loops[i % count](300000);
  printf("%ld\n", total);
  return 0;
}

int main(int argc, char** argv) {
  must(argc >= 3, "usage");
  if (strcmp(argv[1], "files") == 0 && argc == 6) {
    return run_files(atoi(argv[2]), argv[3], argv[4], atol(argv[5]));
  }
  codes = map((size_t)LONG_CHAIN * CODE_BYTES, PROT_READ | PROT_WRITE);
  frames = map((size_t)LONG_CHAIN * FRAME_BYTES, PROT_READ | PROT_WRITE);
  make_state();
  for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
    if (strcmp(argv[1], modes[i].name) != 0) continue;
    run(modes[i].make(argc > 3 ? argv[3] : ""), atoi(argv[2]));
    return 0;
  }
  return 2;
}
