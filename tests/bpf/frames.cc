#include "tests/bpf/frames.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <ostream>
#include <stdexcept>

namespace profd::test {
namespace {

struct Symbol {
  std::uint64_t address;
  std::uint64_t bytes;
};

std::map<std::string, Symbol> symbols_by_nm() {
  const std::unique_ptr<FILE, int (*)(FILE*)> nm(
      ::popen(("nm --defined-only -S " + frames_path()).c_str(), "r"), ::pclose);
  std::map<std::string, Symbol> symbols;
  std::array<char, 4096> line;
  while (nm && std::fgets(line.data(), line.size(), nm.get()) != nullptr) {
    unsigned long address = 0;
    unsigned long bytes = 0;
    char type = 0;
    std::array<char, 256> name{};
    if (std::sscanf(line.data(), "%lx %lx %c %255s", &address, &bytes, &type, name.data()) == 4 ||
        (bytes = 0, std::sscanf(line.data(), "%lx %c %255s", &address, &type, name.data()) == 3)) {
      symbols[name.data()] = {.address = address, .bytes = bytes};
    }
  }
  return symbols;
}

const Symbol& symbol(const std::string& name) {
  static const std::map<std::string, Symbol> symbols = symbols_by_nm();
  return symbols.at(name);
}

constexpr std::uint8_t kR11 = 11;
constexpr std::uint8_t kR9 = 9;

profd_rule saving_bp(profd_rule rule, profd_saved saved, std::int32_t offset) {
  rule.rbp_saved = saved;
  rule.rbp_offset = offset;
  return rule;
}

profd_rule saving_bx(profd_rule rule, profd_saved saved, std::int32_t offset) {
  rule.rbx_saved = saved;
  rule.rbx_offset = offset;
  return rule;
}

profd_rule rule_of_kind(profd_rule_kind kind, std::int32_t cfa_offset, std::int32_t cfa_add) {
  profd_rule rule{};
  rule.kind = kind;
  rule.cfa_offset = cfa_offset;
  rule.cfa_add = cfa_add;
  rule.cfa_register = PROFD_DWARF_RSP;
  rule.ra_saved = PROFD_SAVED_AT_CFA;
  rule.ra_offset = -8;
  return rule;
}

profd_rule realigned_rule() {
  profd_rule rule = rule_of_kind(PROFD_RULE_DEREF, -8, 0);
  rule.cfa_register = PROFD_DWARF_RBP;
  return saving_bp(rule, PROFD_SAVED_AT_REGISTER, 0);
}

profd_rule indexed_rule() {
  profd_rule rule = rule_of_kind(PROFD_RULE_DEREF, 16, 8);
  rule.cfa_index = 1 + kR9;
  return rule;
}

profd_rule in_register_rule() {
  profd_rule rule = cfa_rule(PROFD_DWARF_RSP, 16);
  rule.ra_saved = PROFD_SAVED_REGISTER;
  rule.ra_offset = PROFD_DWARF_RBX;
  return saving_bx(rule, PROFD_SAVED_LOST, 0);
}

bool is_hit(const std::string& kind) { return kind.starts_with("hit"); }

}  // namespace

std::string write_code_file(const std::string& directory, const CodeBytes& code) {
  std::string path = directory + "/code";
  std::ofstream file(path, std::ios::binary);
  for (const auto& [offset, bytes] : code) {
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  file.close();
  if (!file) throw std::runtime_error("write " + path);
  std::filesystem::resize_file(path, (code.rbegin()->first / 4096 + 1) * 4096);
  return path;
}

std::string frames_path() { return PROFD_TEST_FRAMES; }

std::uint64_t frames_label(const std::string& name) { return symbol(name).address; }

profd_rule cfa_rule(std::uint8_t cfa_register, std::int32_t offset) {
  profd_rule rule = rule_of_kind(PROFD_RULE_REGISTER, offset, 0);
  rule.cfa_register = cfa_register;
  return rule;
}

FrameRules frames_rules() {
  const auto rsp = [](std::int32_t offset) { return cfa_rule(PROFD_DWARF_RSP, offset); };
  const auto at_cfa = PROFD_SAVED_AT_CFA;
  profd_rule end{};
  end.kind = PROFD_RULE_END;
  return {
      {"enter", end},
      {"plain", rsp(48)},
      {"clobber", saving_bx(saving_bp(rsp(32), at_cfa, -16), at_cfa, -24)},
      {"framed", saving_bp(cfa_rule(PROFD_DWARF_RBP, 16), at_cfa, -16)},
      {"by_rbx", saving_bx(cfa_rule(PROFD_DWARF_RBX, 16), at_cfa, -16)},
      {"big", rsp(80016)},
      {"realigned", realigned_rule()},
      {"in_register", in_register_rule()},
      {"moved", saving_bx(saving_bp(rsp(24), PROFD_SAVED_REGISTER, PROFD_DWARF_RBX), at_cfa, -16)},
      {"in_file", rsp(32)},
      {"in_pages", rsp(32)},
      {"leaf", rsp(8)},
      {"leaf_red_zone", saving_bp(rsp(8), at_cfa, -16)},
      {"leaf_r11", cfa_rule(kR11, 8)},
      {"leaf_indexed", indexed_rule()},
      {"leaf_plt", rule_of_kind(PROFD_RULE_PLT, 0, 11)},
      {"leaf_plt_pushed", rule_of_kind(PROFD_RULE_PLT, 0, 11)},
      {"leaf_kernel", rsp(8)},
      {"hit", rsp(32)},
      {"hit_r11", cfa_rule(kR11, 8)},
      {"handler", rsp(48)},
      {"restorer_row", rule_of_kind(PROFD_RULE_SIGNAL, 40, 0)},
      {"own_frame_leaf", rule_of_kind(PROFD_RULE_SIGNAL, 40, 0)},
      {"endless", rsp(8)},
  };
}

std::vector<UnwindRow> frames_rows(const FrameRules& rules, const StoredMapping& mapping) {
  std::map<std::uint64_t, profd_rule> by_offset;
  for (const auto& [name, rule] : rules) {
    const Symbol& function = symbol(name);
    const std::uint64_t end =
        name == "restorer_row" ? frames_label("restorer_end") : function.address + function.bytes;
    const std::uint64_t base = mapping.start - mapping.file_offset;
    by_offset[function.address - base] = rule;
    by_offset.try_emplace(end - base);
  }
  std::vector<UnwindRow> rows;
  rows.reserve(by_offset.size());
  for (const auto& [offset, rule] : by_offset) rows.push_back({.offset = offset, .rule = rule});
  return rows;
}

void PrintTo(const KnownFrame& frame, std::ostream* out) {
  *out << std::hex << frame.address << std::dec << " how " << frame.how;
}

std::vector<KnownFrame> frames_stack(const std::vector<std::string>& kinds) {
  std::vector<KnownFrame> frames;
  profd_frame_how how = PROFD_FRAME_INTERRUPTED;
  const auto push = [&](const std::string& label) {
    frames.push_back({.address = frames_label(label), .how = how});
    how = PROFD_FRAME_ROW;
  };
  push(kinds.back() + "_spins");
  for (auto kind = kinds.rbegin() + 1; kind != kinds.rend(); ++kind) {
    if (is_hit(*kind)) {
      push("handler_returns");
      push("restorer");
      how = PROFD_FRAME_SIGNAL;
      push(*kind + "_spins");
    } else {
      push(*kind + "_returns");
    }
    if (*kind == "fallback") how = PROFD_FRAME_POINTER;
  }
  push("enter_returns");
  return frames;
}

std::vector<KnownFrame> frames_of(const StoredSample& sample) {
  std::vector<KnownFrame> frames;
  frames.reserve(sample.view.user_frames.size());
  for (std::size_t i = 0; i < sample.view.user_frames.size(); ++i) {
    const UserFrame frame = sample.frame(i);
    frames.push_back({.address = frame.address, .how = frame.how});
  }
  return frames;
}

}  // namespace profd::test
