/* What extension modules of CPython 3.11 link to, by which a file is recognised: the version, the
 * type of code objects, the runtime with its pthread key, and the code that leads to a thread's
 * state. To be included once by a program or a shared library. */

#ifndef PROFD_TESTS_FORGED_SYMBOLS_H
#define PROFD_TESTS_FORGED_SYMBOLS_H

#include <stdint.h>

#define RUNTIME_KEY 596 /* autoTSSkey._key in 3.11 */
#define TYPE_WORDS 4400

const unsigned long Py_Version = 0x030b02f0; /* 3.11.2 */

/* tp_basicsize (at 32) is 184, wherever in here the type begins. */
uint64_t PyCode_Type[TYPE_WORDS] = {[0 ... TYPE_WORDS - 1] = 184};

char _PyRuntime[4096] __attribute__((aligned(16))) = {1};

void* PyGILState_GetThisThreadState(void);

#if defined(__PIC__) && !defined(__PIE__)
/* As in libpython: by the GOT. */
__asm__(
    ".pushsection .text\n"
    ".globl PyGILState_GetThisThreadState\n"
    ".type PyGILState_GetThisThreadState, @function\n"
    "PyGILState_GetThisThreadState:\n"
    ".cfi_startproc\n"
    "  movq _PyRuntime@GOTPCREL(%rip), %rax\n"
    "  movl 596(%rax), %edi\n"
    "  jmp pthread_getspecific@PLT\n"
    ".cfi_endproc\n"
    ".size PyGILState_GetThisThreadState, . - PyGILState_GetThisThreadState\n"
    ".popsection\n");
#else
__asm__(
    ".pushsection .text\n"
    ".globl PyGILState_GetThisThreadState\n"
    ".type PyGILState_GetThisThreadState, @function\n"
    "PyGILState_GetThisThreadState:\n"
    ".cfi_startproc\n"
    "  movl _PyRuntime+596(%rip), %edi\n"
    "  jmp pthread_getspecific@PLT\n"
    ".cfi_endproc\n"
    ".size PyGILState_GetThisThreadState, . - PyGILState_GetThisThreadState\n"
    ".popsection\n");
#endif

#endif
