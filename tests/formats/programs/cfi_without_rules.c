// Functions with call frame information that no unwind rule can express. Each begins with a usable
// row. In .debug_frame, because the linker parses .eh_frame.

__asm__(
    ".cfi_sections .debug_frame\n"
    ".macro function name\n"
    ".p2align 4\n.globl \\name\n.type \\name, %function\n\\name:\n.cfi_startproc\nnop\n"
    ".endm\n"
    ".macro end name\n"
    "nop\n.cfi_endproc\n.size \\name, . - \\name\n"
    ".endm\n"
    ".text\n"
    "function literal_cfa\n.cfi_escape 0x0f,1,0x30\nend literal_cfa\n"
    "function cfa_of_xmm0\n.cfi_escape 0x0c,17,8\nend cfa_of_xmm0\n"
    "function huge_cfa\n.cfi_escape 0x0e,0x80,0x80,0x80,0x80,0x10\nend huge_cfa\n"
    "function empty_cfa\n.cfi_escape 0x0f,0\nend empty_cfa\n"
    "function cut_cfa\n.cfi_escape 0x0f,1,0x77\nend cut_cfa\n"
    "function longer_cfa\n.cfi_escape 0x0f,6,0x77,8,0x06,0x23,8,0x06\nend longer_cfa\n"
    "function two_dereferences\n.cfi_escape 0x0f,4,0x77,8,0x06,0x06\nend two_dereferences\n"
    "function same_return_address\n.cfi_escape 0x08,16\nend same_return_address\n"
    "function return_address_value\n.cfi_escape 0x14,16,1\nend return_address_value\n"
    "function stack_switch\n.cfi_register rsp, r8\nend stack_switch\n"
    "function no_opcode\n.cfi_escape 0x3f\nend no_opcode\n"
    "function restore_of_nothing\n.cfi_escape 0x0b\nend restore_of_nothing\n"
    "function cut_operand\n.cfi_escape 0x0f,0x7f\nend cut_operand\n"
    // These lose a register only.
    "function rbp_by_value\n.cfi_escape 0x14,6,2\nend rbp_by_value\n"
    "function rbx_by_value\n.cfi_escape 0x16,3,2,0x77,0\nend rbx_by_value\n"
    "function rbp_of_another\n.cfi_escape 0x10,6,2,0x76,0\nend rbp_of_another\n");
