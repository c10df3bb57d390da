#include "formats/symbols/find_code_names.h"

#include <optional>
#include <string>
#include <utility>

#include "formats/symbols/go_functions.h"
#include "formats/symbols/mini_debug_info.h"
#include "formats/symbols/name_answers.h"
#include "formats/symbols/plt.h"
#include "formats/symbols/read_limits.h"
#include "formats/symbols/symbol_table.h"

namespace profd {
namespace {

std::string build_id_of(int fd) {
  const auto summary = read_elf_summary(fd);
  return summary ? summary->build_id : std::string();
}

// The debug file, unless it is another file's.
std::optional<CodeFile> open_debug_file(int fd, int debug_fd) {
  if (debug_fd < 0) return std::nullopt;
  auto debug_file = CodeFile::open(debug_fd);
  if (!debug_file) return std::nullopt;
  const std::string id = build_id_of(fd);
  const std::string debug_id = build_id_of(debug_fd);
  if (!id.empty() && !debug_id.empty() && id != debug_id) return std::nullopt;
  return std::move(*debug_file);
}

// Reads the sources in their order.
class Search {
 public:
  // `debug_file` is null where there is none.
  Search(const LimitedFile& file, const LimitedFile* debug_file,
         std::span<const std::uint64_t> addresses)
      : file_(file), debug_file_(debug_file), answers_(addresses) {}

  void read_go() {
    const std::vector<std::uint64_t> open = answers_.open();
    if (open.empty()) return;
    auto functions = GoFunctions::open(file_);
    if (functions) {
      has_symbols_ = true;
      for (const std::uint64_t address : open) {
        answers_.add({address, functions->frames_at(address), NameSource::kGo, false}, true);
      }
      is_over_budget_ = is_over_budget_ || functions->is_exhausted();
    }
    is_over_budget_ = is_over_budget_ || file_.limits().are_spent();
  }

  void read_symbols() {
    if (debug_file_ != nullptr) {
      read_table(*debug_file_, SymbolTableKind::kSymtab, NameSource::kDebugFile);
    }
    read_table(file_, SymbolTableKind::kSymtab, NameSource::kSymbolTable);
    read_mini_debug_info();
    read_table(file_, SymbolTableKind::kDynsym, NameSource::kDynamicSymbols);
  }

  void read_plt() {
    const std::vector<PltHit> slots = find_plt_slots(file_, answers_.open());
    std::vector<std::uint64_t> resolvers;
    for (const PltHit& slot : slots) {
      if (slot.resolver != 0) resolvers.push_back(slot.resolver);
    }
    Search search(file_, debug_file_, resolvers);
    search.read_symbols();
    is_over_budget_ = is_over_budget_ || search.is_over_budget_ || file_.limits().are_spent();
    is_cut_ = is_cut_ || search.is_cut_;
    for (const PltHit& slot : slots) {
      answers_.add_plt(slot.address,
                       slot.resolver == 0 ? slot.function : search.symbol_at(slot.resolver));
    }
  }

  [[nodiscard]] std::vector<AddressNames> answers_for(
      std::span<const std::uint64_t> addresses) const {
    const NameSource reason = is_over_budget_ ? NameSource::kOverBudget
                              : is_cut_       ? NameSource::kRefused
                              : has_symbols_  ? NameSource::kGap
                                              : NameSource::kNoSymbols;
    return answers_.answers_for(addresses, reason);
  }

 private:
  void read_mini_debug_info() {
    if (answers_.open().empty()) return;
    const auto unpacked = unpack_mini_debug_info(file_);
    is_over_budget_ = is_over_budget_ || file_.limits().are_spent();
    if (!unpacked) return;
    const auto elf = CodeFile::open(unpacked->get());
    if (!elf) return;
    read_table(LimitedFile(*elf, file_.limits()), SymbolTableKind::kSymtab,
               NameSource::kMiniDebugInfo);
  }

  void read_table(const LimitedFile& file, SymbolTableKind kind, NameSource source) {
    const std::vector<std::uint64_t> open = answers_.open();
    if (open.empty()) return;
    const auto found = find_symbols(file, kind, open);
    is_over_budget_ = is_over_budget_ || file.limits().are_spent();
    if (!found) return;
    has_symbols_ = true;
    is_cut_ = is_cut_ || found->is_cut;
    for (std::size_t i = 0; i < open.size(); ++i) {
      const auto& hit = found->hits[i];
      if (hit) answers_.add_symbol(open[i], source, hit->name, hit->is_folded, hit->has_size);
    }
  }

  [[nodiscard]] std::string symbol_at(std::uint64_t address) const {
    const AddressNames answer = answers_for({&address, 1}).front();
    return answer.frames.empty() ? std::string() : answer.frames.front().system_name;
  }

  LimitedFile file_;
  const LimitedFile* debug_file_;
  NameAnswers answers_;
  bool has_symbols_ = false;
  bool is_cut_ = false;  // a table was not read to its end
  bool is_over_budget_ = false;
};

}  // namespace

Result<std::vector<AddressNames>> find_code_names(int fd, int debug_fd,
                                                  std::span<const std::uint64_t> addresses,
                                                  SymbolBudget& budget) {
  if (addresses.size() > kMaxNamedAddresses) {
    return fail(ErrorCode::kTooLarge, "too many addresses to name at once");
  }
  const auto started = ReadLimits::Clock::now();
  const auto file = CodeFile::open(fd);
  if (!file) return file.error();
  ReadLimits limits(fd, budget, started);
  const LimitedFile limited_file(*file, limits);
  const auto debug_elf = open_debug_file(fd, debug_fd);
  std::optional<ReadLimits> debug_limits;
  std::optional<LimitedFile> debug_file;
  if (debug_elf) {
    debug_file.emplace(*debug_elf, debug_limits.emplace(debug_fd, budget, started));
  }
  Search search(limited_file, debug_file ? &*debug_file : nullptr, addresses);
  search.read_go();
  search.read_symbols();
  search.read_plt();
  const bool is_limited = !limits.are_none() || (debug_limits && !debug_limits->are_none());
  if (is_limited) budget.time -= ReadLimits::Clock::now() - started;
  return search.answers_for(addresses);
}

}  // namespace profd
