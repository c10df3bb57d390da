// A program with known stacks: `workload MODE [ARGUMENT]` writes "." to stdout when it is ready,
// and runs until it is killed or its mode ends. Built with frame pointers; every mode is called by
// enter(), which clears the frame pointer, so that the chain ends there.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP __attribute__((noinline, noclone))

enum { PAGE = 4096, BIG = 64 << 20 };

volatile unsigned long work_done;
volatile int over;  // never set: compilers complain of loops that cannot end

void enter(void (*mode)(const char*), const char* argument);
__asm__(
    ".globl enter\n"
    ".type enter, @function\n"
    "enter: push %rbp\n"
    "xor %ebp, %ebp\n"
    "mov %rdi, %rax\n"
    "mov %rsi, %rdi\n"
    "call *%rax\n"
    "pop %rbp\n"
    "ret\n"
    ".size enter, .-enter\n");

static void ready(void) {
  if (write(STDOUT_FILENO, ".", 1) != 1) _exit(1);
}

// Makes a child die with its parent, also if the parent died before this call.
static void die_with(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
}

static double now(void) {
  struct timespec time;

  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

STEP void spin(void) {
  ready();
  while (!over) work_done++;
}

STEP void spin_for(double seconds) {
  double end = now() + seconds;

  while (now() < end)
    for (int i = 0; i < 10000; i++) work_done++;
}

STEP unsigned long recurse(int depth) {
  unsigned long below = 1;

  if (depth)
    below += recurse(depth - 1);
  else
    spin();
  work_done += below;
  return below;
}

STEP void run_spin(const char* argument) {
  (void)argument;
  spin();
  work_done++;
}

STEP void run_recurse(const char* argument) {
  recurse(atoi(argument));
  work_done++;
}

// The system call is in the caller's frame, because libc's wrappers have no frame.
STEP void call_kernel(void) {
  static char zeros[1 << 16];
  int fd = open("/dev/zero", O_RDONLY);

  ready();
  while (!over) {
    long result = SYS_read;

    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"((long)fd), "S"(zeros), "d"(sizeof(zeros))
                     : "rcx", "r11", "memory");
  }
}

STEP void run_syscalls(const char* argument) {
  (void)argument;
  call_kernel();
  work_done++;
}

STEP void fault_pages(void) {
  ready();
  while (!over) {
    char* memory = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    for (size_t at = 0; at < BIG; at += PAGE) memory[at] = 1;
    munmap(memory, BIG);
  }
}

STEP void run_faults(const char* argument) {
  (void)argument;
  fault_pages();
  work_done++;
}

static void* thread_main(void* unused) {
  (void)unused;
  while (!over) work_done++;
  return NULL;
}

STEP void run_threads(const char* argument) {
  for (int i = 1; i < atoi(argument); i++) {
    pthread_t thread;

    if (pthread_create(&thread, NULL, thread_main, NULL)) _exit(1);
  }
  spin();
}

STEP void run_for(const char* argument) {
  ready();
  spin_for(atof(argument));
}

// Forks one child after another; each runs this program again for the given time.
STEP void run_spawn(const char* argument) {
  ready();
  while (!over) {
    pid_t child = fork();

    if (child == 0) {
      spin_for(0.002);
      execl("/proc/self/exe", "workload", "quiet", argument, NULL);
      _exit(1);
    }
    waitpid(child, NULL, 0);
  }
}

STEP void run_quiet(const char* argument) { spin_for(atof(argument)); }

// Forks, execs and exits as fast as possible.
STEP void run_storm(const char* argument) {
  (void)argument;
  ready();
  while (!over) {
    pid_t child = vfork();

    if (child == 0) {
      execl("/proc/self/exe", "workload", "quiet", "0", NULL);
      _exit(1);
    }
    waitpid(child, NULL, 0);
  }
}

// A child that spins; the parent sleeps and never reaps it. The child's pid goes to stdout.
STEP void run_parent(const char* argument) {
  pid_t parent = getpid();
  pid_t child = fork();

  (void)argument;
  if (child == 0) {
    die_with(parent);
    while (!over) work_done++;
  }
  if (dprintf(STDOUT_FILENO, "%d\n", child) < 0) _exit(1);
  pause();
}

// A chain of so many children of children, of which the last one spins. Its pid goes to stdout.
// Each executes the program anew: otherwise the kernel would keep something for each ancestor.
STEP void run_chain(const char* argument) {
  int left = atoi(argument);
  pid_t parent = getpid();
  char rest[16];

  snprintf(rest, sizeof(rest), "%d", left - 1);
  if (left > 0 && fork() == 0) {
    die_with(parent);
    execl("/proc/self/exe", "workload", "chain", rest, NULL);
    _exit(1);
  }
  if (left == 0 && dprintf(STDOUT_FILENO, "%d\n", getpid()) < 0) _exit(1);
  while (!over) {
    if (left > 0) pause();
    work_done++;
  }
}

// Forks on SIGUSR1; parent and child spin.
static volatile sig_atomic_t fork_wanted;

static void want_fork(int signal) {
  (void)signal;
  fork_wanted = 1;
}

STEP void run_fork_later(const char* argument) {
  (void)argument;
  signal(SIGUSR1, want_fork);
  ready();
  while (!over) {
    work_done++;
    if (!fork_wanted) continue;
    fork_wanted = 0;
    pid_t parent = getpid();

    if (fork() == 0) {
      die_with(parent);
      while (!over) work_done++;
    }
  }
}

// Spins until SIGUSR1, then becomes "workload spin".
STEP void run_exec_later(const char* argument) {
  (void)argument;
  signal(SIGUSR1, want_fork);
  ready();
  while (!fork_wanted) work_done++;
  execl("/proc/self/exe", "workload", "spin", NULL);
  _exit(1);
}

// Repeatedly forks a child that exits with much memory to unmap.
STEP void run_exits(const char* argument) {
  (void)argument;
  ready();
  while (!over) {
    pid_t child = fork();

    if (child == 0) {
      char* memory =
          mmap(NULL, 2 * BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

      for (size_t at = 0; at < 2 * BIG; at += PAGE) memory[at] = 1;
      _exit(0);
    }
    waitpid(child, NULL, 0);
  }
}

// Maps two files of the same code at one address, in turn. The argument is a directory for them.
static void* map_code(const char* directory, const char* name) {
  static const unsigned char loop[] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3};  // dec rdi; jnz; ret
  char path[4096];

  snprintf(path, sizeof(path), "%s/%s", directory, name);
  int fd = open(path, O_RDWR | O_CREAT, 0600);

  if (fd < 0 || write(fd, loop, sizeof(loop)) != sizeof(loop)) _exit(1);
  void* code = mmap((void*)0x700000000000, PAGE, PROT_READ | PROT_EXEC,
                    MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0);

  close(fd);
  return code;
}

STEP void run_remap(const char* argument) {
  ready();
  for (int turn = 0; !over; turn ^= 1) {
    void* code = map_code(argument, turn ? "second" : "first");

    ((void (*)(unsigned long))code)(20 * 1000 * 1000);
    work_done++;
    munmap(code, PAGE);
  }
}

// Code in anonymous memory.
STEP void run_anonymous(const char* argument) {
  static const unsigned char loop[] = {0xeb, 0xfe};  // jmp to itself
  void* code =
      mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  (void)argument;
  memcpy(code, loop, sizeof(loop));
  ready();
  ((void (*)(void))code)();
  work_done++;
}

STEP void run_clock(const char* argument) {
  (void)argument;
  ready();
  while (!over) work_done += (unsigned long)now();
}

// Spins for ever with these two registers.
void spin_with(unsigned long frame_pointer, unsigned long stack_pointer);
__asm__(
    ".globl spin_with\n"
    ".type spin_with, @function\n"
    "spin_with: mov %rdi, %rbp\n"
    "mov %rsi, %rsp\n"
    "0: jmp 0b\n"
    ".size spin_with, .-spin_with\n");

// Stacks with every kind of end. Two frames, {saved frame pointer, return address}, are at the end
// of a page; the memory behind it is not readable.
STEP void run_stack(const char* argument) {
  char* page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  unsigned long* last = (unsigned long*)(page + PAGE - 16);
  unsigned long* first = (unsigned long*)(page + PAGE - 48);
  unsigned long code = (unsigned long)spin;

  mprotect(page + PAGE, PAGE, PROT_NONE);
  first[0] = (unsigned long)last;
  first[1] = code + 1;
  last[0] = 0;
  last[1] = code + 1;
  if (strcmp(argument, "misaligned") == 0)
    last[0] = (unsigned long)page + PAGE + 4;
  else if (strcmp(argument, "downwards") == 0)
    last[0] = (unsigned long)first;
  else if (strcmp(argument, "unreadable") == 0)
    last[0] = (unsigned long)page + PAGE + 64;
  else if (strcmp(argument, "unmapped") == 0)
    first[1] = 16;
  else if (strcmp(argument, "not-executable") == 0)
    first[1] = (unsigned long)page + 1;
  ready();
  spin_with((unsigned long)first, (unsigned long)page + PAGE / 2);
  work_done++;
}

// A chain of a thousand frames, whose return addresses are in so many mappings in turn.
STEP void run_cycle(const char* argument) {
  enum { FRAMES = 1000 };
  static unsigned long frames[FRAMES][2];
  const unsigned long mappings = strtoul(argument, NULL, 10);
  char* code =
      mmap(NULL, 2 * mappings * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  for (unsigned long i = 0; i < mappings; i++) mprotect(code + (2 * i + 1) * PAGE, PAGE, PROT_NONE);
  for (unsigned long i = 0; i < FRAMES; i++) {
    frames[i][0] = i + 1 < FRAMES ? (unsigned long)frames[i + 1] : 0;
    frames[i][1] = (unsigned long)code + 2 * (i % mappings) * PAGE + 1;
  }
  ready();
  spin_with((unsigned long)frames[0], (unsigned long)frames[0]);
  work_done++;
}

STEP void run_not_dumpable(const char* argument) {
  (void)argument;
  prctl(PR_SET_DUMPABLE, 0);
  spin();
  work_done++;
}

STEP void run_named(const char* argument) {
  prctl(PR_SET_NAME, argument);
  spin();
  work_done++;
}

// Has another name at each tick.
STEP void run_rename(const char* argument) {
  char name[16];

  (void)argument;
  ready();
  for (unsigned turn = 0; !over; turn++) {
    snprintf(name, sizeof(name), "%x", turn);
    prctl(PR_SET_NAME, name);
  }
}

static const struct {
  const char* name;
  void (*run)(const char*);
} modes[] = {
    {"spin", run_spin},     {"recurse", run_recurse},       {"syscalls", run_syscalls},
    {"faults", run_faults}, {"threads", run_threads},       {"for", run_for},
    {"quiet", run_quiet},   {"spawn", run_spawn},           {"storm", run_storm},
    {"parent", run_parent}, {"anonymous", run_anonymous},   {"clock", run_clock},
    {"stack", run_stack},   {"fork-later", run_fork_later}, {"exec-later", run_exec_later},
    {"exits", run_exits},   {"remap", run_remap},           {"not-dumpable", run_not_dumpable},
    {"named", run_named},   {"cycle", run_cycle},           {"chain", run_chain},
    {"rename", run_rename},
};

int main(int count, char** arguments) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (size_t i = 0; count > 1 && i < sizeof(modes) / sizeof(*modes); i++) {
    if (strcmp(arguments[1], modes[i].name) == 0) {
      enter(modes[i].run, count > 2 ? arguments[2] : "");
      return 0;
    }
  }
  return 2;
}
