// Functions whose call frame information has each shape that rules tell, and some that they don't.
// None of them is called. With DEBUG_FRAME it lies in .debug_frame.

#ifdef DEBUG_FRAME
__asm__(".cfi_sections .debug_frame\n");
#endif

__asm__(
    ".macro function name\n"
    ".p2align 4\n.globl \\name\n.type \\name, %function\n\\name:\n.cfi_startproc\n"
    ".endm\n"
    ".macro end name\n"
    ".cfi_endproc\n.size \\name, . - \\name\n"
    ".endm\n"
    ".text\n"

    "function pushes\n"
    "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset rbp, -16\n"
    "push %rbx\n.cfi_def_cfa_offset 24\n.cfi_offset rbx, -24\n"
    "push %r12\n.cfi_def_cfa_offset 32\n.cfi_offset r12, -32\n"
    "nop\n.cfi_remember_state\n"
    "pop %r12\n.cfi_restore r12\n.cfi_def_cfa_offset 24\n.cfi_remember_state\n"
    "pop %rbx\n.cfi_restore rbx\n.cfi_def_cfa_offset 16\n"
    "pop %rbp\n.cfi_restore rbp\n.cfi_def_cfa_offset 8\n"
    "ret\n.cfi_restore_state\n"
    "nop\n.cfi_restore_state\n"
    "nop\n"
    "end pushes\n"

    "function frame_pointer\n"
    "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset rbp, -16\n"
    "mov %rsp, %rbp\n.cfi_def_cfa_register rbp\n"
    "leave\n.cfi_def_cfa rsp, 8\n"
    "ret\n"
    "end frame_pointer\n"

    "function large_frame\n"
    "nop\n.cfi_def_cfa_offset 0x12345678\n"
    "nop\n.cfi_def_cfa_offset 8184\n"
    "nop\n.cfi_def_cfa_offset 8192\n"
    "nop\n"
    "end large_frame\n"

    // gcc's, where it aligns the stack to more than 16.
    "function realigned\n"
    "lea 8(%rsp), %r10\n.cfi_def_cfa r10, 0\n"
    "and $-32, %rsp\n"
    "push -8(%r10)\npush %rbp\n"
    "mov %rsp, %rbp\n.cfi_escape 0x10,6,2,0x76,0\n"
    "push %r10\n.cfi_escape 0x0f,3,0x76,0x78,0x06\n"
    "push %rbx\n.cfi_escape 0x10,3,2,0x76,0x70\n"
    "nop\n"
    "pop %rbx\n.cfi_restore rbx\n"
    "pop %r10\n.cfi_def_cfa r10, 0\n"
    "pop %rbp\n.cfi_restore rbp\n"
    "lea -8(%r10), %rsp\n.cfi_def_cfa rsp, 8\n"
    "ret\n"
    "end realigned\n"

    // OpenSSL's.
    "function dereferenced\n"
    "nop\n.cfi_escape 0x0f,6,0x77,0x98,0x01,0x06,0x23,8\n"
    "nop\n.cfi_def_cfa_register rsp\n"
    "nop\n"
    "end dereferenced\n"
    "function indexed\n"
    "nop\n.cfi_escape 0x0f,10,0x77,8,0x79,0,0x38,0x1e,0x22,0x06,0x23,8\n"
    "nop\n"
    "end indexed\n"
    "function plus_of_expression\n"
    "nop\n.cfi_escape 0x0f,2,0x77,16\n"
    "nop\n"
    "end plus_of_expression\n"

    "function in_registers\n"
    "nop\n.cfi_register rip, rdx\n"
    "nop\n.cfi_register rbx, r8\n"
    "nop\n.cfi_register rbp, r9\n"
    "nop\n.cfi_register rsp, r8\n"
    "nop\n"
    "end in_registers\n"

    "function undefined\n"
    "nop\n.cfi_undefined rbp\n"
    "nop\n.cfi_same_value rbp\n"
    "nop\n.cfi_undefined rip\n"
    "nop\n"
    "end undefined\n"

    // def_cfa_sf, def_cfa_offset_sf, offset_extended_sf, offset_extended, negative_offset_extended,
    // GNU_args_size
    "function rarely_used\n"
    "nop\n.cfi_escape 0x12,7,0x7e\n"
    "nop\n.cfi_escape 0x13,0x7c\n"
    "nop\n.cfi_escape 0x11,6,2\n"
    "nop\n.cfi_escape 0x05,3,3\n"
    "nop\n.cfi_escape 0x2e,0x20\n"
    "nop\n"
    "end rarely_used\n"

    "function far_advances\n"
    ".skip 200, 0x90\n.cfi_def_cfa_offset 16\n"
    ".skip 2000, 0x90\n.cfi_def_cfa_offset 24\n"
    ".skip 100000, 0x90\n.cfi_def_cfa_offset 32\n"
    "nop\n"
    "end far_advances\n"

    "function saved_by_expression\n"
    "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_escape 0x10,6,2,0x77,0\n"
    "nop\n.cfi_escape 0x10,3,2,0x77,0x70\n"
    "nop\n"
    "end saved_by_expression\n"

    "function signal_frame\n"
    ".cfi_signal_frame\n"
    ".cfi_escape 0x0f,4,0x77,0xa0,0x01,0x06\n"
    ".cfi_escape 0x10,6,3,0x77,0xf8,0x00\n.cfi_escape 0x10,3,3,0x77,0x80,0x01\n"
    ".cfi_escape 0x10,7,3,0x77,0xa0,0x01\n.cfi_escape 0x10,16,3,0x77,0xa8,0x01\n"
    "nop\n"
    "end signal_frame\n"

    "function lying_signal_frame\n"
    ".cfi_signal_frame\n"
    "nop\n"
    "end lying_signal_frame\n");
