#include "formats/symbols/name_answers.h"

#include <algorithm>
#include <utility>

#include "formats/symbols/demangle.h"
#include "formats/symbols/find_code_names.h"

namespace profd {
namespace {

std::size_t bytes_of(const AddressNames& answer) {
  std::size_t bytes = 0;
  for (const CodeFrame& frame : answer.frames) {
    bytes += sizeof frame + frame.name.size() + frame.system_name.size() + frame.file.size();
  }
  return bytes;
}

AddressNames unnamed(std::uint64_t address, NameSource reason) {
  return {address, {}, reason, false};
}

}  // namespace

NameAnswers::NameAnswers(std::span<const std::uint64_t> addresses) {
  std::vector<std::uint64_t> sorted(addresses.begin(), addresses.end());
  std::ranges::sort(sorted);
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  entries_.reserve(sorted.size());
  for (const std::uint64_t address : sorted) {
    entries_.push_back({unnamed(address, NameSource::kGap), false});
  }
}

std::size_t NameAnswers::index_of(std::uint64_t address) const {
  const auto address_of = [](const Entry& entry) { return entry.answer.address; };
  const auto found = std::ranges::lower_bound(entries_, address, {}, address_of);
  const bool is_there = found != entries_.end() && found->answer.address == address;
  return is_there ? static_cast<std::size_t>(found - entries_.begin()) : entries_.size();
}

std::vector<std::uint64_t> NameAnswers::open() const {
  std::vector<std::uint64_t> addresses;
  for (const Entry& entry : entries_) {
    if (!entry.is_final) addresses.push_back(entry.answer.address);
  }
  return addresses;
}

void NameAnswers::add(AddressNames answer, bool is_final) {
  const std::size_t index = index_of(answer.address);
  if (index == entries_.size() || answer.frames.empty()) return;
  Entry& entry = entries_[index];
  if (entry.is_final || (!is_final && !entry.answer.frames.empty())) return;
  bytes_ += bytes_of(answer);
  const bool has_room = bytes_ <= kMaxNamesBytes;
  if (!has_room) answer = unnamed(answer.address, NameSource::kOverBudget);
  entry = {std::move(answer), is_final || !has_room};
}

void NameAnswers::add_symbol(std::uint64_t address, NameSource source,
                             const std::string& system_name, bool is_folded, bool is_final) {
  // Without room the name is not shown, and need not be demangled.
  if (last_.system_name != system_name && bytes_ <= kMaxNamesBytes) {
    last_.name = shown_name(system_name);
    last_.system_name = system_name;
  }
  if (last_.name.empty()) return;
  CodeFrame frame = last_;
  frame.system_name = printable_utf8(system_name, kMaxCodeNameBytes);
  add({address, {std::move(frame)}, source, is_folded}, is_final);
}

void NameAnswers::add_plt(std::uint64_t address, const std::string& function) {
  if (function.empty()) return;
  CodeFrame frame;
  frame.name = printable_utf8(shown_name(function) + "@plt", kMaxCodeNameBytes);
  frame.system_name = printable_utf8(function + "@plt", kMaxCodeNameBytes);
  add({address, {std::move(frame)}, NameSource::kPlt, false}, true);
}

std::vector<AddressNames> NameAnswers::answers_for(std::span<const std::uint64_t> addresses,
                                                   NameSource reason) const {
  std::vector<AddressNames> answers;
  answers.reserve(addresses.size());
  std::size_t bytes = 0;
  for (const std::uint64_t address : addresses) {
    const AddressNames& found = entries_[index_of(address)].answer;
    bytes += bytes_of(found);
    if (found.frames.empty()) {
      const bool is_over = found.source == NameSource::kOverBudget;
      answers.push_back(unnamed(address, is_over ? found.source : reason));
    } else if (bytes > kMaxNamesBytes) {
      answers.push_back(unnamed(address, NameSource::kOverBudget));
    } else {
      answers.push_back(found);
    }
  }
  return answers;
}

}  // namespace profd
