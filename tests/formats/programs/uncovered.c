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

    // The last calls of runtime.rt0_go, runtime.mstart and runtime.abort.
    "function rt0_go\n"
    "call .Lmstart\ncall .Labort\nret\n"
    "function go_mstart\n"
    ".Lmstart: call .Lgoexit1\n.globl go_mstart_return\ngo_mstart_return:\nret\n"
    ".globl after_go_mstart\nafter_go_mstart:\n.skip 26, 0xcc\n"
    "function go_abort\n"
    ".Labort: .byte 0xcd, 0x03, 0xeb, 0xfe\n.skip 28, 0xcc\n"
    "function like_go_mstart\n"
    ".Llike_mstart: call .Lgoexit1\nret\n.skip 26, 0xcc\n"
    "function calls_like_go_mstart\n"
    "call .Llike_mstart\ncall .Llike_mstart\nret\n"
    // runtime.clone of Go 1.19.
    "function go_clone\n"
    ".byte 0x8b, 0x7c, 0x24, 0x08, 0x48, 0x8b, 0x74, 0x24, 0x10, 0x48, 0xc7, 0xc2, 0x00, 0x00\n"
    ".byte 0x00, 0x00, 0x49, 0xc7, 0xc2, 0x00, 0x00, 0x00, 0x00, 0x49, 0xc7, 0xc0, 0x00, 0x00\n"
    ".byte 0x00, 0x00, 0x4c, 0x8b, 0x6c, 0x24, 0x18, 0x4c, 0x8b, 0x4c, 0x24, 0x20, 0x4c, 0x8b\n"
    ".byte 0x64, 0x24, 0x28, 0x49, 0x83, 0xfd, 0x00, 0x74, 0x18, 0x49, 0x83, 0xf9, 0x00, 0x74\n"
    ".byte 0x12, 0x4d, 0x8d, 0x85, 0x88, 0x00, 0x00, 0x00, 0x49, 0x83, 0xc0, 0x08, 0x48, 0x81\n"
    ".byte 0xcf, 0x00, 0x00, 0x08, 0x00\n"
    ".globl go_clone_call\ngo_clone_call:\n"
    ".byte 0xb8, 0x38, 0x00, 0x00, 0x00, 0x0f, 0x05, 0x48, 0x83, 0xf8, 0x00, 0x74, 0x05, 0x89\n"
    ".byte 0x44, 0x24, 0x30, 0xc3\n"
    ".globl go_clone_child\ngo_clone_child:\n"
    ".byte 0x48, 0x89, 0xf4, 0x49, 0x83, 0xfd, 0x00, 0x74, 0x26, 0x49, 0x83, 0xf9, 0x00, 0x74\n"
    ".byte 0x20, 0xb8, 0xba, 0x00, 0x00, 0x00, 0x0f, 0x05, 0x49, 0x89, 0x45, 0x48, 0x4d, 0x89\n"
    ".byte 0x69, 0x30, 0x64, 0x4c, 0x89, 0x0c, 0x25, 0xf8, 0xff, 0xff, 0xff, 0x4d, 0x89, 0xce\n"
    ".byte 0xe8, 0xb4, 0xdf, 0xff, 0xff, 0x41, 0xff, 0xd4, 0xbf, 0x6f, 0x00, 0x00, 0x00, 0xb8\n"
    ".byte 0x3c, 0x00, 0x00, 0x00, 0x0f, 0x05, 0xeb, 0xf2\n"
    ".globl after_go_clone\nafter_go_clone:\n.skip 3, 0xcc\n"

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
