// A program without call frame information of its own: musl's entry code and signal restorer, and
// code that only looks like them.

__asm__(
    ".text\n"
    ".macro function name\n"
    ".p2align 5, 0x90\n.globl \\name\n.type \\name, %function\n\\name:\n"
    ".endm\n"

    "function _start\n"
    "xor %rbp, %rbp\nmov %rsp, %rdi\nand $-16, %rsp\ncall main\n"
    ".globl after_start\nafter_start:\n"
    ".skip 200, 0xc3\n"

    "function main\n"
    "sub $8, %rsp\ncall imported\nadd $8, %rsp\nret\n"

    "function restorer\n"
    "nop\n"
    ".globl __restore_rt\n__restore_rt:\n"
    "mov $15, %rax\nsyscall\n"
    ".globl after_restorer\nafter_restorer:\n"
    "ret\n"

    "function short_restorer\n"
    "nop\nmov $15, %eax\nsyscall\n"

    "function other_system_call\n"
    "nop\nmov $15, %r8d\nsyscall\n"
    "function other_number\n"
    "nop\nmov $14, %rax\nsyscall\n"

    "function goexit\n"
    "nop\ncall .Lgoexit1\nnop\n.globl after_goexit\nafter_goexit:\n.skip 24, 0xcc\n.Lgoexit1: ret\n"
    "function no_goexit\n"
    "nop\ncall .Lgoexit1\nnop\nret\n"

    "function covered\n"
    ".cfi_startproc\nret\n.cfi_endproc\n"
    "function covered_too\n"
    ".cfi_startproc\nret\n.cfi_endproc\n"
    ".globl padding\npadding:\n"
    ".skip 5, 0x90\n.skip 3, 0xcc\n"
    ".globl after_padding\nafter_padding:\n"
    ".cfi_startproc\npush %rax\n.cfi_def_cfa_offset 16\nret\n.cfi_endproc\n"
    ".globl tiny\ntiny:\n"
    "inc %eax\nret\n"
    ".globl after_tiny\nafter_tiny:\n"
    ".cfi_startproc\nret\n.cfi_endproc\n"

    ".section .gopclntab, \"a\"\n.long 0xfffffff1\n");
