// A program that is looked at and never run, laid out as compilers leave an interpreter: a part of
// the loop lies apart from it, between functions, and has no symbol.

#define FUNCTION(name, bytes)                                                                      \
  ".globl " #name "\n.type " #name ", @function\n" #name ":\n.skip " #bytes ", 0x90\n.size " #name \
  ", " #bytes "\n"

__asm__(".text\n" FUNCTION(_start, 32) FUNCTION(loop, 32)
            FUNCTION(before, 32) ".skip 64, 0x90\n" FUNCTION(behind, 32));
