// A program with the memory of an interpreter: `forged MODE` writes to stdout where its slot, the
// type of its code objects and its code are, and spins. Its layout is that of CPython 3.13. Built
// with frame pointers; enter() clears the frame pointer, so that the native stack ends there:
//
//     spin, inner_loop (runs f and g), outer_loop (runs h), enter

#define _GNU_SOURCE
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define STEP __attribute__((noinline, noclone))

enum { FRAME_BYTES = 128, CODE_TEXT = 200, UNITS = 100 };

volatile unsigned long work_done;
volatile int over;  // never set: compilers complain of loops that cannot end

static char objects[1 << 14] __attribute__((aligned(16)));
static char* next_object = objects;
static char code_type[16];
static char thread_state[256];
static char* slot = thread_state;
static char frame_f[FRAME_BYTES], frame_g[FRAME_BYTES], frame_h[FRAME_BYTES];

static void put(char* object, int offset, unsigned long value) {
  memcpy(object + offset, &value, sizeof(value));
}

static char* allocate(size_t bytes) {
  char* object = next_object;

  next_object += (bytes + 15) / 16 * 16;
  return object;
}

static unsigned long make_str(const char* text) {
  char* object = allocate(41 + strlen(text));

  put(object, 16, strlen(text));
  put(object, 32, 1 << 2 | 1 << 5 | 1 << 6);
  strcpy(object + 40, text);
  return (unsigned long)object;
}

static char* make_code(const char* name, unsigned line) {
  char* code = allocate(CODE_TEXT + 2 * UNITS);
  char* lines = allocate(40);

  put(lines, 16, 3);
  strcpy(lines + 32, "abc");
  put(code, 8, (unsigned long)code_type);
  put(code, 16, UNITS);
  memcpy(code + 68, &line, sizeof(line));
  put(code, 112, make_str("forged.py"));
  put(code, 120, make_str(name));
  put(code, 128, make_str(name));
  put(code, 136, (unsigned long)lines);
  return code;
}

static void make_frame(char* frame, const char* name, unsigned line, long unit, char* caller) {
  char* code = make_code(name, line);

  put(frame, 0, (unsigned long)code);
  put(frame, 8, (unsigned long)caller);
  put(frame, 56, (unsigned long)(code + CODE_TEXT + 2 * unit));
}

static void make_shim(char* shim, char* caller) {
  memset(shim, 0, FRAME_BYTES);
  put(shim, 8, (unsigned long)caller);
  shim[70] = 3;
}

// gcc leaves out the frame pointer of a leaf that does not ask for it.
STEP void spin(void) {
  void* volatile frame = __builtin_frame_address(0);

  while (!over) work_done++;
  work_done += (unsigned long)frame;
}

void enter(void (*step)(void));
__asm__(
    ".globl enter\n"
    ".type enter, @function\n"
    "enter: push %rbp\n"
    "xor %ebp, %ebp\n"
    "call *%rdi\n"
    "pop %rbp\n"
    "ret\n"
    ".size enter, .-enter\n");

STEP void inner_loop(void) {
  char shim[FRAME_BYTES] __attribute__((aligned(16)));

  make_shim(shim, frame_h);
  make_frame(frame_g, "g", 20, 5, shim);
  make_frame(frame_f, "f", 10, 3, frame_g);
  put(thread_state, 72, (unsigned long)frame_f);
  spin();
  work_done += (unsigned long)shim[0];
}

STEP void outer_loop(void) {
  char shim[FRAME_BYTES] __attribute__((aligned(16)));

  make_shim(shim, NULL);
  make_frame(frame_h, "h", 30, 1, shim);
  inner_loop();
  work_done += (unsigned long)shim[0];
}

int main(int count, char** arguments) {
  const char* mode = count > 1 ? arguments[1] : "";

  prctl(PR_SET_PDEATHSIG, SIGKILL);
  put(thread_state, 152, (unsigned long)pthread_self());
  if (strcmp(mode, "mismatch") == 0) put(thread_state, 152, 1);
  if (strcmp(mode, "none") == 0) slot = NULL;
  if (strcmp(mode, "unreadable") == 0) slot = (char*)8;
  char text[128];
  int bytes = snprintf(text, sizeof(text), "%lx %lx %lx", (unsigned long)&slot,
                       (unsigned long)code_type, (unsigned long)spin);

  if (write(STDOUT_FILENO, text, (size_t)bytes) != bytes) return 1;
  enter(outer_loop);
}
