#include "tests/formats/unwind/libdw_cfi.h"

#include <dwarf.h>
#include <fcntl.h>
#include <gelf.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include <elfutils/libdw.h>

#include "formats/base/unique_fd.h"

namespace profd::test {
namespace {

// What an expression leads to: DWARF 5, 2.6.
std::optional<Got> evaluate(const Dwarf_Op* ops, std::size_t count, std::uint64_t cfa,
                            std::uint64_t ip) {
  std::vector<std::uint64_t> stack;
  Got::How how = Got::kAtAddress;
  const auto pop = [&] {
    if (stack.empty()) return std::uint64_t{0};
    const std::uint64_t top = stack.back();
    stack.pop_back();
    return top;
  };
  for (std::size_t i = 0; i < count; ++i) {
    const Dwarf_Op& op = ops[i];
    if (op.atom >= DW_OP_lit0 && op.atom <= DW_OP_lit31) {
      stack.push_back(op.atom - DW_OP_lit0);
    } else if (op.atom >= DW_OP_breg0 && op.atom <= DW_OP_breg31) {
      stack.push_back(register_value(op.atom - DW_OP_breg0, ip) + op.number);
    } else if (op.atom >= DW_OP_reg0 && op.atom <= DW_OP_reg31) {
      return Got{Got::kInRegister, std::uint64_t{op.atom} - DW_OP_reg0};
    } else {
      switch (op.atom) {
        case DW_OP_regx:
          return Got{Got::kInRegister, op.number};
        case DW_OP_bregx:
          stack.push_back(register_value(static_cast<unsigned>(op.number), ip) + op.number2);
          break;
        case DW_OP_call_frame_cfa:
          stack.push_back(cfa);
          break;
        case DW_OP_plus_uconst:
          stack.push_back(pop() + op.number);
          break;
        case DW_OP_plus:
          stack.push_back(pop() + pop());
          break;
        case DW_OP_mul:
          stack.push_back(pop() * pop());
          break;
        case DW_OP_and:
          stack.push_back(pop() & pop());
          break;
        case DW_OP_shl: {
          const std::uint64_t bits = pop();
          stack.push_back(pop() << bits);
          break;
        }
        case DW_OP_ge: {
          const auto right = static_cast<std::int64_t>(pop());
          stack.push_back(static_cast<std::int64_t>(pop()) >= right ? 1 : 0);
          break;
        }
        case DW_OP_deref:
          stack.push_back(memory_at(pop()));
          break;
        case DW_OP_stack_value:
          how = Got::kValue;
          break;
        default:
          return std::nullopt;
      }
    }
  }
  return Got{how, pop()};
}

std::optional<Got> register_of(Dwarf_Frame* frame, int number, std::uint64_t cfa,
                               std::uint64_t ip) {
  Dwarf_Op memory[3];
  Dwarf_Op* ops = nullptr;
  std::size_t count = 0;
  if (::dwarf_frame_register(frame, number, memory, &ops, &count) != 0) return std::nullopt;
  if (count == 0) return Got{ops == nullptr ? Got::kUnchanged : Got::kNever};
  return evaluate(ops, count, cfa, ip);
}

std::uint64_t load_u64(const std::uint8_t* at) {
  std::uint64_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

std::uint32_t load_u32(const std::uint8_t* at) {
  std::uint32_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// 'R' of a "z" augmentation: DW_EH_PE_absptr, or pcrel | sdata4; 0xff: another one.
std::uint8_t pointer_encoding(const Dwarf_CIE& cie) {
  const std::uint8_t* data = cie.augmentation_data;
  for (const char* letter = cie.augmentation; *letter != '\0'; ++letter) {
    switch (*letter) {
      case 'R':
        return *data == 0x1b || *data == 0 ? *data : 0xff;
      case 'L':
        ++data;
        break;
      case 'P':  // an encoding and a pointer of 4 or 8 bytes
        data += (*data & 0x0f) == 0x0b || (*data & 0x0f) == 0x03 ? 5 : 9;
        break;
      default:
        break;
    }
  }
  return 0;
}

}  // namespace

std::uint64_t register_value(unsigned number, std::uint64_t ip) {
  return number == 16 ? ip : 0x7fff'0000'0000 + number * 0x1'0000'0000;
}

std::uint64_t memory_at(std::uint64_t address) { return (address ^ 0x5a5a) * 0x9e3779b97f4a7c15; }

namespace {

Got got_back(std::uint8_t saved, std::int32_t offset, const profd_rule& rule, std::uint64_t cfa,
             std::uint64_t ip) {
  const auto distance = static_cast<std::uint64_t>(std::int64_t{offset});
  switch (saved) {
    case PROFD_SAVED_NOT:
      return {Got::kUnchanged};
    case PROFD_SAVED_AT_CFA:
      return {Got::kAtAddress, cfa + distance};
    case PROFD_SAVED_REGISTER:
      return {Got::kInRegister, distance};
    case PROFD_SAVED_AT_REGISTER:
      return {Got::kAtAddress, register_value(rule.cfa_register, ip) + distance};
    default:
      return {Got::kNever};
  }
}

CallerFrame caller_of_signal(const profd_rule& rule, std::uint64_t ip) {
  constexpr unsigned kOrder[] = PROFD_SIGCONTEXT_REGISTERS;
  const std::uint64_t at = register_value(PROFD_DWARF_RSP, ip) +
                           static_cast<std::uint64_t>(std::int64_t{rule.cfa_offset});
  std::map<unsigned, std::uint64_t> places;
  for (unsigned i = 0; i < std::size(kOrder); ++i) places[kOrder[i]] = at + std::uint64_t{8} * i;
  CallerFrame caller;
  caller.cfa = memory_at(places[PROFD_DWARF_RSP]);
  caller.return_address = {Got::kAtAddress, at + std::uint64_t{8} * PROFD_SIGCONTEXT_IP};
  caller.rbp = {Got::kAtAddress, places[PROFD_DWARF_RBP]};
  caller.rbx = {Got::kAtAddress, places[PROFD_DWARF_RBX]};
  return caller;
}

}  // namespace

std::optional<CallerFrame> caller_by_rule(const profd_rule& rule, std::uint64_t ip) {
  if (rule.kind == PROFD_RULE_UNKNOWN) return std::nullopt;
  if (rule.kind == PROFD_RULE_END) return CallerFrame{};
  if (rule.kind == PROFD_RULE_SIGNAL) return caller_of_signal(rule, ip);
  CallerFrame caller;
  const std::uint64_t base = register_value(rule.cfa_register, ip);
  caller.cfa = base + static_cast<std::uint64_t>(std::int64_t{rule.cfa_offset});
  if (rule.kind == PROFD_RULE_PLT && static_cast<std::int32_t>(ip & 15) >= rule.cfa_add) {
    caller.cfa += 8;
  }
  if (rule.kind == PROFD_RULE_DEREF) {
    if (rule.cfa_index != 0) caller.cfa += 8 * register_value(rule.cfa_index - 1U, ip);
    caller.cfa = memory_at(caller.cfa) + static_cast<std::uint64_t>(std::int64_t{rule.cfa_add});
  }
  caller.return_address = got_back(rule.ra_saved, rule.ra_offset, rule, caller.cfa, ip);
  caller.rbp = got_back(rule.rbp_saved, rule.rbp_offset, rule, caller.cfa, ip);
  caller.rbx = got_back(rule.rbx_saved, rule.rbx_offset, rule, caller.cfa, ip);
  return caller;
}

struct LibdwCfi::Handles {
  UniqueFd fd;
  Elf* elf = nullptr;
  Dwarf* dwarf = nullptr;
  Dwarf_CFI* cfi = nullptr;
  bool owns_cfi = false;
  std::vector<GElf_Phdr> segments;
};

LibdwCfi::LibdwCfi() : handles_(std::make_unique<Handles>()) {}

LibdwCfi::~LibdwCfi() {
  if (handles_->owns_cfi) ::dwarf_cfi_end(handles_->cfi);
  if (handles_->dwarf != nullptr) ::dwarf_end(handles_->dwarf);
  if (handles_->elf != nullptr) ::elf_end(handles_->elf);
}

std::unique_ptr<LibdwCfi> LibdwCfi::open(const std::string& path, bool debug_frame) {
  ::elf_version(EV_CURRENT);
  std::unique_ptr<LibdwCfi> opened(new LibdwCfi);
  Handles& handles = *opened->handles_;
  handles.fd = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!handles.fd.valid()) return nullptr;
  handles.elf = ::elf_begin(handles.fd.get(), ELF_C_READ_MMAP, nullptr);
  if (handles.elf == nullptr) return nullptr;
  if (debug_frame) {
    handles.dwarf = ::dwarf_begin_elf(handles.elf, DWARF_C_READ, nullptr);
    handles.cfi = ::dwarf_getcfi(handles.dwarf);
  } else {
    handles.cfi = ::dwarf_getcfi_elf(handles.elf);
    handles.owns_cfi = true;
  }
  std::size_t count = 0;
  ::elf_getphdrnum(handles.elf, &count);
  for (std::size_t i = 0; i < count; ++i) {
    GElf_Phdr segment;
    if (::gelf_getphdr(handles.elf, static_cast<int>(i), &segment) == nullptr) continue;
    if (segment.p_type == PT_LOAD) handles.segments.push_back(segment);
  }
  if (handles.cfi == nullptr || !opened->list_functions(debug_frame)) return nullptr;
  return opened;
}

// False for a file without the section, and for encodings that no compiler here uses.
bool LibdwCfi::list_functions(bool debug_frame) {
  std::size_t names = 0;
  ::elf_getshdrstrndx(handles_->elf, &names);
  Elf_Scn* section = nullptr;
  GElf_Shdr header{};
  while ((section = ::elf_nextscn(handles_->elf, section)) != nullptr) {
    if (::gelf_getshdr(section, &header) == nullptr) return false;
    const char* name = ::elf_strptr(handles_->elf, names, header.sh_name);
    if (name != nullptr && std::strcmp(name, debug_frame ? ".debug_frame" : ".eh_frame") == 0)
      break;
  }
  if (section == nullptr || header.sh_type == SHT_NOBITS) return false;
  if ((header.sh_flags & SHF_COMPRESSED) != 0) ::elf_compress(section, 0, 0);
  Elf_Data* data = ::elf_getdata(section, nullptr);
  if (data == nullptr) return false;
  const auto* ident =
      reinterpret_cast<const unsigned char*>(::elf_getident(handles_->elf, nullptr));
  std::map<Dwarf_Off, std::uint8_t> encodings;
  Dwarf_Off next = 0;
  for (Dwarf_Off offset = 0; offset != static_cast<Dwarf_Off>(-1); offset = next) {
    Dwarf_CFI_Entry entry;
    const int status = ::dwarf_next_cfi(ident, data, !debug_frame, offset, &next, &entry);
    if (status != 0) return status > 0;
    if (entry.CIE_id == DW_CIE_ID_64) {
      encodings[offset] = pointer_encoding(entry.cie);
      continue;
    }
    const std::uint8_t encoding = encodings[entry.fde.CIE_pointer];
    if (encoding == 0xff) return false;
    Range range;
    if (encoding == 0) {
      range.start = load_u64(entry.fde.start);
      range.end = range.start + load_u64(entry.fde.start + 8);
    } else {
      const auto at = static_cast<std::uint64_t>(entry.fde.start -
                                                 static_cast<const std::uint8_t*>(data->d_buf));
      range.start = header.sh_addr + at +
                    static_cast<std::uint64_t>(
                        std::int64_t{static_cast<std::int32_t>(load_u32(entry.fde.start))});
      range.end = range.start + load_u32(entry.fde.start + 4);
    }
    functions_.push_back(range);
  }
  return true;
}

std::optional<LibdwCfi::Row> LibdwCfi::row_at(std::uint64_t address) const {
  Dwarf_Frame* frame = nullptr;
  if (::dwarf_cfi_addrframe(handles_->cfi, address, &frame) != 0) return std::nullopt;
  const std::unique_ptr<Dwarf_Frame, decltype(&std::free)> owner(frame, std::free);
  Row row;
  ::dwarf_frame_info(frame, &row.start, &row.end, nullptr);
  Dwarf_Op* ops = nullptr;
  std::size_t count = 0;
  if (::dwarf_frame_cfa(frame, &ops, &count) != 0) return std::nullopt;
  const auto cfa = evaluate(ops, count, 0, address);
  const auto return_address = register_of(frame, 16, cfa ? cfa->value : 0, address);
  if (!cfa || !return_address) return std::nullopt;
  row.caller.cfa = cfa->value;
  row.caller.return_address = *return_address;
  const auto rbp = register_of(frame, PROFD_DWARF_RBP, cfa->value, address);
  const auto rbx = register_of(frame, PROFD_DWARF_RBX, cfa->value, address);
  const auto rsp = register_of(frame, PROFD_DWARF_RSP, cfa->value, address);
  if (!rbp || !rbx || !rsp) return std::nullopt;
  row.caller.rbp = *rbp;
  row.caller.rbx = *rbx;
  const bool leads_to_cfa = rsp->how == Got::kAtAddress && memory_at(rsp->value) == cfa->value;
  row.caller.rsp_is_cfa =
      leads_to_cfa || *rsp == Got{Got::kValue, cfa->value} || rsp->how == Got::kUnchanged;
  return row;
}

std::optional<std::uint64_t> LibdwCfi::offset_of(std::uint64_t address) const {
  for (const GElf_Phdr& segment : handles_->segments) {
    if (address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz) {
      return segment.p_offset + (address - segment.p_vaddr);
    }
  }
  return std::nullopt;
}

}  // namespace profd::test
