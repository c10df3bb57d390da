#include "collectors/interpreters/runtimes.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "formats/php/layouts.h"
#include "formats/python/layouts.h"

namespace profd {
namespace {

// A runtime that some files have.
struct RuntimeNumber {
  profd_runtime runtime{};
  std::size_t files = 0;  // 0: free
  std::uint32_t payer = 0;
  std::uint64_t freed = 0;  // the order in which they became free; 0: never used
};

bool are_equal(const profd_runtime& a, const profd_runtime& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

void put_layouts(InterpreterMaps& maps) {
  for (unsigned minor = python::kFirstMinor; minor <= python::kLastMinor; ++minor) {
    maps.put_layout(python::layout_number(minor),
                    python::to_layout(python::find_version(minor)->layout));
  }
  for (const php::Version& version : php::versions()) {
    maps.put_layout(version.layout_number, php::to_layout(version.layout));
  }
}

}  // namespace

struct Runtimes::Parts {
  std::unique_ptr<InterpreterMaps> maps;
  std::array<RuntimeNumber, PROFD_MAX_RUNTIMES> numbers{};  // the first one is never used
  std::uint64_t frees = 0;
  std::map<FileKey, std::uint16_t> files{};  // with a number
  struct Listed {
    InterpreterFile file;
    bool is_users = false;
  };
  std::map<FileKey, Listed> listed{};
  std::array<std::uint64_t, kRuntimeVerdictCount> counts{};

  [[nodiscard]] bool has_room(std::uint32_t payer) const;
  [[nodiscard]] std::uint16_t take(const profd_runtime& runtime, std::uint32_t payer);
  void release(std::uint16_t number);
  void list(const FileKey& file, InterpreterFile shown, bool is_users);
  [[nodiscard]] const profd_runtime* find(const FileKey& file) const;
};

bool Runtimes::Parts::has_room(std::uint32_t payer) const {
  if (payer == 0) return true;
  const auto is_users = [](const RuntimeNumber& n) { return n.files > 0 && n.payer != 0; };
  const auto is_payers = [payer](const RuntimeNumber& n) {
    return n.files > 0 && n.payer == payer;
  };
  return std::ranges::count_if(numbers, is_users) < std::ptrdiff_t{kMaxOfUsers} &&
         std::ranges::count_if(numbers, is_payers) < std::ptrdiff_t{kMaxOfUser};
}

// Of the free numbers, the one that has been free for the longest: a program may still find the
// runtime that had it before.
std::uint16_t Runtimes::Parts::take(const profd_runtime& runtime, std::uint32_t payer) {
  if (!maps) return 0;
  const std::span<RuntimeNumber> all = std::span(numbers).subspan(1);
  auto chosen = std::ranges::find_if(all, [&](const RuntimeNumber& number) {
    return number.files > 0 && are_equal(number.runtime, runtime);
  });
  const bool is_new = chosen == all.end();
  if (is_new) {
    if (!has_room(payer)) return 0;
    chosen = std::ranges::min_element(all, {}, [](const RuntimeNumber& number) {
      return std::pair(number.files > 0, number.freed);
    });
    if (chosen->files > 0) return 0;
    chosen->runtime = runtime;
    chosen->payer = payer;
  }
  if (payer == 0) chosen->payer = 0;
  ++chosen->files;
  const auto number = static_cast<std::uint16_t>(chosen - all.begin() + 1);
  if (is_new) maps->put_runtime(number, runtime);
  return number;
}

void Runtimes::Parts::release(std::uint16_t number) {
  RuntimeNumber& released = numbers[number];
  if (--released.files > 0) return;
  released.freed = ++frees;
  maps->put_runtime(number, {});
}

// Users never keep root's files out of the list.
void Runtimes::Parts::list(const FileKey& file, InterpreterFile shown, bool is_users) {
  const auto of_users =
      std::ranges::count_if(listed, [](const auto& entry) { return entry.second.is_users; });
  const bool has_place =
      listed.size() < kMaxListed && (!is_users || of_users < std::ptrdiff_t{kMaxListed / 2});
  if (has_place) listed.emplace(file, Listed{std::move(shown), is_users});
}

const profd_runtime* Runtimes::Parts::find(const FileKey& file) const {
  const auto known = files.find(file);
  return known == files.end() ? nullptr : &numbers[known->second].runtime;
}

Runtimes::Runtimes(std::unique_ptr<InterpreterMaps> maps) : parts_(std::make_unique<Parts>()) {
  parts_->maps = std::move(maps);
  if (parts_->maps) put_layouts(*parts_->maps);
}

Runtimes::~Runtimes() = default;

std::uint16_t Runtimes::add(const FileKey& file, const FoundRuntime& found, std::string_view path,
                            std::uint32_t payer) {
  if (const auto known = parts_->files.find(file); known != parts_->files.end()) {
    return known->second;
  }
  if (!parts_->listed.contains(file)) ++parts_->counts[static_cast<std::size_t>(found.verdict)];
  if (found.kind == PROFD_RUNTIME_NONE) return 0;  // none, or the parser did not answer
  const bool is_known = found.verdict == RuntimeVerdict::kKnown;
  const std::uint16_t number = is_known ? parts_->take(found.runtime, payer) : std::uint16_t{0};
  if (number != 0) parts_->files.emplace(file, number);
  const bool has_room = !is_known || number != 0 || !parts_->maps;
  parts_->list(file,
               {.path = std::string(path),
                .text = text_of(found),
                .verdict = found.verdict,
                .has_room = has_room},
               payer != 0);
  return number;
}

void Runtimes::remove(const FileKey& file) {
  parts_->listed.erase(file);
  const auto known = parts_->files.extract(file);
  if (known) parts_->release(known.mapped());
}

bool Runtimes::is_loop(const FileKey& file, std::uint64_t offset) const {
  const profd_runtime* const runtime = parts_->find(file);
  return runtime != nullptr && profd::is_loop(*runtime, offset);
}

profd_runtime_kind Runtimes::kind_of(const FileKey& file) const {
  const profd_runtime* const runtime = parts_->find(file);
  return runtime == nullptr ? PROFD_RUNTIME_NONE : static_cast<profd_runtime_kind>(runtime->kind);
}

std::vector<InterpreterFile> Runtimes::list() const {
  std::vector<InterpreterFile> files;
  files.reserve(parts_->listed.size());
  for (const auto& [key, listed] : parts_->listed) files.push_back(listed.file);
  return files;
}

InterpreterFiles Runtimes::refused() const {
  InterpreterFiles files;
  for (const auto& [key, listed] : parts_->listed) {
    const bool is_known = listed.file.verdict == RuntimeVerdict::kKnown && listed.file.has_room;
    if (!is_known) files.emplace(key, listed.file);
  }
  return files;
}

std::map<FileKey, profd_runtime> Runtimes::by_file() const {
  std::map<FileKey, profd_runtime> runtimes;
  for (const auto& [file, number] : parts_->files) {
    runtimes.emplace(file, parts_->numbers[number].runtime);
  }
  return runtimes;
}

const std::array<std::uint64_t, kRuntimeVerdictCount>& Runtimes::counts() const {
  return parts_->counts;
}

InterpreterMaps* Runtimes::maps() const { return parts_->maps.get(); }

}  // namespace profd
