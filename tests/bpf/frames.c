// A program whose arguments define its stack: `frames KIND...`, outermost first; the last one is a
// leaf that spins. A file to map can precede them: `/PATH` for in_file, or `pages:/PATH` for
// in_pages, with a separate mapping of each page. Writes "." before it calls the first function.
//
// Every kind is an assembly function with its own form of frame, without CFI: the tests write the
// rows (frames.cc). A kind calls the next one and has the label KIND_returns behind the call; a
// leaf spins at KIND_spins. The chain runs on a stack whose last word is the last one of a mapping,
// and the memory behind it is not readable. The signal stack is at a higher address, so that a
// signal frame leads down.

#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <stddef.h>
#include <string.h>

enum { PAGE = 4096, STACK = 1 << 20 };

typedef void (*kind)(const void* next);  // of the kinds that are to come

// The first and the last lines of a function `name`.
#define FUNCTION(name, code)                                                                     \
  void name(const void* next);                                                                   \
  __asm__(".pushsection .text\n.globl " #name "\n.type " #name ", @function\n.balign 16\n" #name \
          ":\n" code ".size " #name ", .-" #name "\n.popsection\n")
#define LABEL(name) ".globl " name "\n" name ":\n"
#define CALL_NEXT(name) "mov (%rdi), %rax\nadd $8, %rdi\ncall *%rax\n" LABEL(name "_returns")
#define SPIN(name) LABEL(name "_spins") "jmp " name "_spins\n"

// Never returns: the tests kill the process.
#define NEVER "ud2\n"

void enter(const kind* first, void* stack);
__asm__(
    ".globl enter\n.type enter, @function\nenter:\n"
    "mov %rsi, %rsp\nxor %ebp, %ebp\n" CALL_NEXT("enter") NEVER ".size enter, .-enter\n");

FUNCTION(plain, "sub $40, %rsp\n" CALL_NEXT("plain") NEVER);
FUNCTION(clobber,
         "push %rbp\npush %rbx\nsub $8, %rsp\nmov $1, %ebp\nmov $1, %ebx\n" CALL_NEXT("clobber")
             NEVER);
FUNCTION(framed, "push %rbp\nmov %rsp, %rbp\nsub $32, %rsp\n" CALL_NEXT("framed") NEVER);
FUNCTION(fallback, "push %rbp\nmov %rsp, %rbp\nsub $32, %rsp\n" CALL_NEXT("fallback") NEVER);
FUNCTION(by_rbx, "push %rbx\nmov %rsp, %rbx\nand $-64, %rsp\n" CALL_NEXT("by_rbx") NEVER);
FUNCTION(big, "sub $80008, %rsp\n" CALL_NEXT("big") NEVER);
FUNCTION(realigned,
         "lea 8(%rsp), %r10\nand $-32, %rsp\npush -8(%r10)\npush %rbp\nmov %rsp, %rbp\n"
         "push %r10\nsub $8, %rsp\n" CALL_NEXT("realigned") NEVER);
FUNCTION(in_register, "pop %rbx\nsub $16, %rsp\n" CALL_NEXT("in_register") NEVER);
FUNCTION(moved, "push %rbx\nmov %rbp, %rbx\nmov $1, %ebp\nsub $8, %rsp\n" CALL_NEXT("moved") NEVER);

// Calls code in the mapped file. If the code raises a signal, the handler continues the chain.
static const void* volatile next_of_handler __attribute__((used));
#define CALL_AT(name, address)                                                \
  FUNCTION(name, "sub $24, %rsp\nmov %rdi, next_of_handler\nmovabs $" address \
                 ", %rax\n"                                                   \
                 "call *%rax\n" LABEL(#name "_returns") NEVER)
CALL_AT(in_file, "0x300000ffff0");
CALL_AT(in_pages, "0x40000000000");

FUNCTION(leaf, SPIN("leaf"));
FUNCTION(leaf_red_zone, "mov %rbp, -8(%rsp)\nmov $1, %ebp\n" SPIN("leaf_red_zone"));
FUNCTION(leaf_r11, "mov %rsp, %r11\nsub $512, %rsp\nand $-64, %rsp\n" SPIN("leaf_r11"));
FUNCTION(leaf_indexed,
         "mov %rsp, %rax\nsub $128, %rsp\nmov $5, %r9d\nmov %rax, 56(%rsp)\n" SPIN("leaf_indexed"));
FUNCTION(leaf_plt, SPIN("leaf_plt"));
FUNCTION(leaf_plt_pushed, "push $7\n.skip 9, 0x90\n" SPIN("leaf_plt_pushed"));
FUNCTION(leaf_kernel,
         "leaf_kernel_again: mov $24, %eax\nsyscall\n" LABEL(
             "leaf_kernel_spins") "jmp leaf_kernel_again\n");  // sched_yield

// Raises a signal, whose handler continues the chain.
FUNCTION(hit, "sub $24, %rsp\nmov %rdi, next_of_handler\n" LABEL("hit_spins") NEVER);
FUNCTION(hit_r11,
         "mov %rsp, %r11\nsub $56, %rsp\nmov %rdi, next_of_handler\n" LABEL("hit_r11_spins") NEVER);
void handler(int signal);
__asm__(
    ".globl handler\n.type handler, @function\nhandler:\n"
    "sub $40, %rsp\nmov next_of_handler, %rdi\n" CALL_NEXT("handler") NEVER
    ".size handler, .-handler\n");
// Its row begins at the byte before, as in glibc, because it is looked up as a return address.
void restorer(void);
__asm__(
    ".globl restorer_row\nrestorer_row: nop\n.globl restorer\nrestorer:\n"
    "mov $15, %eax\nsyscall\n.globl restorer_end\nrestorer_end: nop\n");

// A signal frame that leads to itself, for a false row of this leaf: a sigcontext with 40 bytes
// before it, whose rsp and rip are those of the frame.
enum { CONTEXT_RSP = 5 + 15, CONTEXT_RIP = 5 + 16 };
static unsigned long own_frame[64] __attribute__((used, aligned(64)));
void own_frame_spins(void);
FUNCTION(own_frame_leaf, "mov $own_frame, %rsp\n" SPIN("own_frame"));

// A large stack with one return address in every word.
FUNCTION(endless,
         "lea -65536(%rsp), %rcx\nlea endless_spins(%rip), %rax\n"
         "0: sub $8, %rsp\nmov %rax, (%rsp)\ncmp %rcx, %rsp\nja 0b\nnop\n" SPIN("endless"));

static const struct {
  const char* name;
  kind function;
} kinds[] = {
#define KIND(name) \
  { #name, name }
    KIND(in_file),         KIND(in_pages),    KIND(plain),        KIND(clobber),
    KIND(framed),          KIND(fallback),    KIND(by_rbx),       KIND(big),
    KIND(realigned),       KIND(in_register), KIND(moved),        KIND(leaf),
    KIND(leaf_red_zone),   KIND(leaf_r11),    KIND(leaf_indexed), KIND(leaf_plt),
    KIND(leaf_plt_pushed), KIND(leaf_kernel), KIND(hit),          KIND(hit_r11),
    KIND(own_frame_leaf),  KIND(endless),
};

static kind find_kind(const char* name) {
  for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
    if (strcmp(kinds[i].name, name) == 0) return kinds[i].function;
  _exit(2);
}

// The top of a stack; the page behind it is not readable.
static char* make_stack(unsigned long address) {
  char* memory = mmap((void*)address, STACK + PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

  if (memory != (char*)address || mprotect(memory + STACK, PAGE, PROT_NONE)) _exit(3);
  return memory + STACK;
}

// The system call itself: libc would use its own restorer.
static void take_signals(char* stack_top) {
  const stack_t stack = {.ss_sp = stack_top - STACK, .ss_size = STACK};
  struct {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
  } action = {handler, SA_ONSTACK | SA_NODEFER | 0x04000000 /* SA_RESTORER */, restorer, 0};

  if (sigaltstack(&stack, NULL) || syscall(SYS_rt_sigaction, SIGILL, &action, NULL, 8)) _exit(4);
}

static int open_file(const char* path) {
  int fd = open(path, O_RDONLY);

  if (fd < 0) _exit(5);
  return fd;
}

static void map_code(unsigned long address, size_t bytes, int fd, off_t offset) {
  if (mmap((void*)address, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd,
           offset) == MAP_FAILED)
    _exit(6);
}

// At file offset 16 MiB; the code of in_file begins 16 bytes before it.
static void map_file(const char* path) {
  map_code(0x30000000000, 2 << 20, open_file(path), (1 << 24) - (1 << 20));
}

// With an unmapped page behind each.
static void map_pages(const char* path) {
  int fd = open_file(path);
  off_t bytes = lseek(fd, 0, SEEK_END);

  for (off_t at = 0; at < bytes; at += PAGE)
    map_code(0x40000000000 + 2 * (unsigned long)at, PAGE, fd, at);
}

static int map_argument(const char* argument) {
  if (argument[0] == '/')
    map_file(argument);
  else if (strncmp(argument, "pages:", 6) == 0)
    map_pages(argument + 6);
  else
    return 0;
  return 1;
}

int main(int count, char** arguments) {
  kind chain[512];
  char* stack = make_stack(0x10000000000);

  prctl(PR_SET_PDEATHSIG, SIGKILL);
  take_signals(make_stack(0x20000000000));
  own_frame[CONTEXT_RSP] = (unsigned long)own_frame;
  own_frame[CONTEXT_RIP] = (unsigned long)own_frame_spins;
  int first = 1 + (count > 1 && map_argument(arguments[1]));

  for (int i = first; i < count && i < 512; i++) chain[i - first] = find_kind(arguments[i]);
  if (write(STDOUT_FILENO, ".", 1) != 1) return 1;
  enter(chain, stack);
}
