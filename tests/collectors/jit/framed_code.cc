#include "tests/collectors/jit/framed_code.h"

#include <cstring>
#include <string_view>

namespace profd::test {
namespace {

constexpr std::size_t kStride = 128;

template <class T>
void put(std::string& bytes, T value) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  bytes.append(raw, sizeof(T));
}

void put_bytes(std::string& bytes, std::initializer_list<unsigned char> values) {
  for (const unsigned char value : values) bytes.push_back(static_cast<char>(value));
}

std::string caller_of(std::uint64_t next) {
  std::string code;
  put_bytes(code, {0x55});                    //  0 push rbp
  put_bytes(code, {0x53});                    //  1 push rbx
  put_bytes(code, {0x48, 0x83, 0xec, 0x18});  //  2 sub rsp, 24
  put_bytes(code, {0xbd, 1, 0, 0, 0});        //  6 mov ebp, 1
  put_bytes(code, {0x48, 0xb8});              // 11 mov rax, next
  put(code, next);
  put_bytes(code, {0xff, 0xd0});              // 21 call rax
  put_bytes(code, {0x48, 0x83, 0xc4, 0x18});  // 23 add rsp, 24
  put_bytes(code, {0x5b, 0x5d, 0xc3});        // 27 pop rbx; pop rbp; ret
  return code;
}

std::string leaf() {
  std::string code;
  put_bytes(code, {0x55});              // 0 push rbp
  put_bytes(code, {0xbd, 3, 0, 0, 0});  // 1 mov ebp, 3
  put_bytes(code, {0x48, 0xff, 0xc0});  // 6 inc rax
  put_bytes(code, {0xeb, 0xfb});        // 9 jmp 6
  return code;
}

// 0x40 + N is DW_CFA_advance_loc by N bytes, 0x0e def_cfa_offset; 0x86 and 0x83 are the places of
// rbp and rbx.
std::string caller_program() {
  std::string program;
  put_bytes(program, {0x41, 0x0e, 16, 0x86, 2});  // from 1
  put_bytes(program, {0x41, 0x0e, 24, 0x83, 3});  // from 2
  put_bytes(program, {0x44, 0x0e, 48});           // from 6
  put_bytes(program, {0x55, 0x0e, 24});           // from 27
  put_bytes(program, {0x41, 0x0e, 16, 0x41, 0x0e, 8});
  return program;
}

std::string leaf_program() {
  std::string program;
  put_bytes(program, {0x41, 0x0e, 16, 0x86, 2});
  return program;
}

// An entry with its length before it, and nops behind it up to a multiple of 8.
void put_entry(std::string& section, std::string body) {
  while ((body.size() + 4) % 8 != 0) body.push_back('\0');
  put(section, static_cast<std::uint32_t>(body.size()));
  section += body;
}

// Pointers are relative to the section's place in perf's image, behind the code.
std::string eh_frame_of(const FramedFunction& function, const std::string& program) {
  constexpr std::size_t kEntryHeader = 8;
  std::string cie;
  put(cie, std::uint32_t{0});
  put_bytes(cie, {1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b});
  put_bytes(cie, {0x0c, 7, 8, 0x90, 1});
  std::string section;
  put_entry(section, cie);
  const std::uint64_t section_at = function.address + (function.code.size() + 7) / 8 * 8;
  const std::uint64_t field_at = section_at + section.size() + kEntryHeader;
  std::string fde;
  put(fde, static_cast<std::uint32_t>(section.size() + 4));
  put(fde, static_cast<std::int32_t>(function.address - field_at));
  put(fde, static_cast<std::uint32_t>(function.code.size()));
  fde.push_back('\0');
  put_entry(section, fde + program);
  put(section, std::uint32_t{0});
  return section;
}

}  // namespace

std::vector<FramedFunction> make_framed_code(std::uint64_t address, std::size_t functions) {
  std::vector<FramedFunction> made;
  for (std::size_t i = 0; i < functions; ++i) {
    const bool is_leaf = i + 1 == functions;
    FramedFunction& function = made.emplace_back();
    function.name = (is_leaf ? "leaf" : "caller") + std::to_string(i);
    function.address = address + i * kStride;
    function.code = is_leaf ? leaf() : caller_of(function.address + kStride);
    function.eh_frame = eh_frame_of(function, is_leaf ? leaf_program() : caller_program());
    std::string header;
    put_bytes(header, {1, 0x1b, 3, 0x3b});
    header.append(16, '\0');
    function.eh_frame_hdr_bytes = header.size();
    function.eh_frame += header;
  }
  return made;
}

}  // namespace profd::test
