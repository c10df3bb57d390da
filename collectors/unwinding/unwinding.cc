#include "collectors/unwinding/unwinding.h"

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "collectors/files/debug_files.h"
#include "collectors/files/vdso.h"
#include "collectors/host/user_refusals.h"
#include "collectors/interpreters/maps.h"
#include "collectors/unwinding/nanoseconds.h"

namespace profd {
namespace {

constexpr std::chrono::seconds kNewRequestInterval{60};
// Mappings of one file that wait until it is open; further ones are tried again by time.
constexpr std::size_t kMaxWaitingForFile = 64;
// Of tables of JIT code that wait for room. One of a large program takes 2 MiB.
constexpr std::size_t kMaxLateJitBytes = std::size_t{32} << 20;
// Who pays for a file of root's process that could not be opened: no user.
constexpr std::uint32_t kUnknownUser = UINT32_MAX;

bool is_temporary(TableRefusal reason) {
  switch (reason) {
    case TableRefusal::kMalformed:
    case TableRefusal::kUnsupported:
    case TableRefusal::kTooLarge:
      return false;
    default:
      return true;
  }
}

// Not the limits of memory: the files would displace each other again and again.
bool is_worth_another_load(TableRefusal reason) {
  return reason == TableRefusal::kTimeout || reason == TableRefusal::kParserDied ||
         reason == TableRefusal::kQueueFull;
}

FileRegions regions_of_mapping(const CodeMapping& mapping) {
  return regions_of(mapping.file_offset, mapping.end - mapping.start, mapping.file.size_bytes);
}

CodeMapping mapping_of(const profd_running_code& running) {
  CodeMapping mapping{};
  mapping.process.tgid = running.tgid;
  mapping.start = running.start;
  mapping.end = running.end;
  mapping.file_offset = running.file_offset;
  mapping.file = to_key(running.file);
  mapping.on_fuse = running.on_fuse != 0;
  return mapping;
}

// Whether the file, which could not be opened, is worth another open by this process: one that maps
// it too may have ended before the open.
bool may_open_later_by(const ProcessKey& process, const MappedFile& file) {
  return file.may_open_later || file.process != process;
}

// The word of a frame whose mapping, if it is known, is the first one.
std::uint64_t leaf_word(std::uint64_t ip, bool has_mapping, profd_frame_how how) {
  const std::uint64_t mapping = has_mapping ? 0 : PROFD_NO_MAPPING;
  return (ip & PROFD_FRAME_ADDRESS_MASK) | mapping << PROFD_FRAME_MAPPING_SHIFT |
         std::uint64_t{how} << PROFD_FRAME_HOW_SHIFT;
}

// The rows mark the last frame as the outermost one.
bool reached_entry(profd_user_end end) { return end == PROFD_END_ENTRY; }

// Which native frames of one sample are code of an interpreter's file, and which are its loop. For
// frames of other files, it costs one look-up for each of the sample's mappings.
class LoopsOfSample {
 public:
  LoopsOfSample(const ProcessMappings& mappings, const Runtimes& runtimes,
                const ProcessKey& process)
      : mappings_(mappings), runtimes_(runtimes), process_(process) {}

  [[nodiscard]] bool is_loop(std::uint64_t word) {
    const std::uint64_t address = address_of(word);
    const CodeMapping* const mapping = mapping_of(word);
    return mapping != nullptr &&
           runtimes_.is_loop(mapping->file, address - mapping->start + mapping->file_offset);
  }
  [[nodiscard]] bool is_of_interpreter(std::uint64_t word) { return mapping_of(word) != nullptr; }

 private:
  struct Known {
    bool is_known = false;
    const CodeMapping* mapping = nullptr;  // null: it has no interpreter
  };

  // Of a return address, that of the call.
  [[nodiscard]] static std::uint64_t address_of(std::uint64_t word) {
    const UserFrame frame = UserFrame::from_word(word);
    const bool is_exact = frame.how == PROFD_FRAME_INTERRUPTED || frame.how == PROFD_FRAME_SIGNAL;
    return is_exact ? frame.address : frame.address - 1;
  }

  // Null: the mapping has no interpreter, or its record was lost.
  [[nodiscard]] const CodeMapping* mapping_of(std::uint64_t word) {
    const std::size_t index = UserFrame::from_word(word).mapping;
    if (index >= known_.size()) return find(address_of(word));
    Known& known = known_[index];
    if (!known.is_known) known = {.is_known = true, .mapping = find(address_of(word))};
    return known.mapping;
  }
  [[nodiscard]] const CodeMapping* find(std::uint64_t address) const {
    const CodeMapping* const mapping = mappings_.find(process_, address);
    const bool is_of_interpreter = mapping != nullptr && mapping->kind == PROFD_MAPPING_FILE &&
                                   runtimes_.kind_of(mapping->file) != PROFD_RUNTIME_NONE;
    return is_of_interpreter ? mapping : nullptr;
  }

  const ProcessMappings& mappings_;
  const Runtimes& runtimes_;
  ProcessKey process_;
  std::array<Known, PROFD_MAX_STACK_MAPPINGS> known_{};
};

}  // namespace

Result<std::unique_ptr<Unwinding>> Unwinding::open(const Programs& programs, MappedFiles& files,
                                                   const UnwindingOptions& options,
                                                   SampleSink& next) {
  auto maps = open_table_maps(programs);
  if (!maps) return maps.error();
  auto interpreter_maps = open_interpreter_maps(programs);
  if (!interpreter_maps) return interpreter_maps.error();
  auto loader =
      TableLoader::start({.cache_directory = options.cache_directory, .debug_root = kDebugRoot});
  if (!loader) return loader.error();
  std::unique_ptr<Unwinding> unwinding(new Unwinding(
      files, std::move(*maps), std::make_unique<Runtimes>(std::move(*interpreter_maps)),
      std::move(*loader), options, next));
  unwinding->load_vdso();
  unwinding->load_running_code(programs);
  return unwinding;
}

Unwinding::Unwinding(MappedFiles& files, std::unique_ptr<TableMaps> maps,
                     std::unique_ptr<Runtimes> runtimes, std::unique_ptr<TableLoader> loader,
                     const UnwindingOptions& options, SampleSink& next)
    : files_(files),
      refusals_(options.refusals),
      codes_(options.codes),
      runtimes_(std::move(runtimes)),
      tables_(std::move(maps), {.max_bytes = options.max_bytes}, profd::is_gone,
              [this](const FileKey& file) { runtimes_->remove(file); }),
      next_(next),
      deferred_(
          tables_, mappings_,
          [this](const CodeMapping& mapping) { request_unless_loading(mapping); },
          [this](const FileKey& file, std::uint64_t offset) {
            return runtimes_->is_loop(file, offset);
          },
          [this](const SampleView& sample, const InterpretedStack& stack) {
            deliver_deferred(sample, stack);
          }),
      loader_(std::move(loader)) {
  tables_.tick(nanoseconds_of(Clock::now().time_since_epoch()));
  if (codes_ != nullptr) codes_->set_maps(runtimes_->maps());
}

Unwinding::~Unwinding() {
  if (codes_ != nullptr) codes_->set_maps(nullptr);
}

// The vDSO of every process is that of profd.
void Unwinding::load_vdso() {
  auto image = copy_own_vdso();
  std::shared_ptr<const MappedFile> file;
  if (image) {
    file = std::make_shared<const MappedFile>(
        MappedFile{.key = vdso_key(), .path = "[vdso]", .fd = std::move(*image)});
  }
  load({.key = vdso_key(), .payer = 0, .regions = 1, .pinned = true}, file,
       TableLoader::Urgency::kStacksWait);
}

// Requests the tables of running code in the background, those of the most processes first. Without
// the list, tables are made when stacks need them.
void Unwinding::load_running_code(const Programs& programs) {
  const auto listed = programs.list_running_code();
  if (!listed) return;
  struct Code {
    CodeMapping mapping{};
    FileRegions regions{};
    std::size_t processes = 0;
  };
  std::map<FileKey, Code> files;
  std::map<std::uint32_t, std::uint32_t> users;  // by process
  for (const profd_running_code& running : *listed) {
    const CodeMapping mapping = mapping_of(running);
    const auto [user, is_new] = users.try_emplace(running.tgid);
    if (is_new) user->second = files_.user_of(mapping.process);
    Code& code = files.try_emplace(mapping.file, Code{.mapping = mapping}).first->second;
    // Root pays where one of its processes runs the file. The first one: it is the oldest, and is
    // there when the file is opened.
    if (user->second == 0 && users.at(code.mapping.process.tgid) != 0) code.mapping = mapping;
    code.regions |= regions_of_mapping(mapping);
    ++code.processes;
  }
  std::vector<const Code*> by_use;
  by_use.reserve(files.size());
  for (const auto& [key, code] : files) by_use.push_back(&code);
  std::ranges::stable_sort(by_use, std::ranges::greater{}, &Code::processes);
  if (by_use.size() > TableLoader::kMaxQueued) by_use.resize(TableLoader::kMaxQueued);
  for (const Code* code : by_use) {
    want_table(code->mapping, code->regions, TableLoader::Urgency::kBackground);
  }
}

void Unwinding::on_record(const Record& record) noexcept {
  std::visit([this](const auto& view) { on(view); }, record);
}

void Unwinding::on(const SampleView& sample) noexcept {
  if (const InterpretedStack* const stack = pending_.take(sample)) {
    deliver(sample, *stack);
  } else {
    next_.on_sample(sample);
  }
}

void Unwinding::on(const DeferredSampleView& sample) noexcept {
  deferred_.add(sample, files_.user_of(sample.sample.process), Clock::now(),
                pending_.take(sample.sample));
}

void Unwinding::on(const InterpretedStackView& stack) noexcept {
  try {
    pending_.add(stack);
  } catch (const std::exception&) {  // no memory: the sample has its native frames
  }
}

void Unwinding::on(const InterpretedCodeView& code) noexcept {
  if (codes_ != nullptr) codes_->on_code(code, files_.user_of(code.process));
}

void Unwinding::deliver(const SampleView& sample, const InterpretedStack& stack) noexcept {
  try {
    if (codes_ != nullptr && !stack.empty()) return pass_woven(sample, stack);
  } catch (const std::exception&) {  // no memory
  }
  next_.on_sample(sample);
}

// A stack that met the code of an interpreter before its file was recognised has no interpreted
// frames: table and interpreter of a file are found together.
void Unwinding::deliver_deferred(const SampleView& sample, const InterpretedStack& stack) noexcept {
  if (sample.interpreted == PROFD_INTERPRETED_NONE) {
    LoopsOfSample loops(mappings_, *runtimes_, sample.process);
    const auto is_of_interpreter = [&](std::uint64_t word) {
      return loops.is_of_interpreter(word);
    };
    if (std::ranges::any_of(sample.user_frames, is_of_interpreter)) ++without_table_;
  }
  deliver(sample, stack);
}

void Unwinding::pass_woven(const SampleView& sample, const InterpretedStack& stack) {
  const std::uint32_t user = files_.user_of(sample.process);
  LoopsOfSample loops(mappings_, *runtimes_, sample.process);
  weave(
      {.words = sample.user_frames, .is_complete = reached_entry(sample.user_end)}, stack,
      [&](std::uint64_t id) { return codes_->number_of(sample.process, id, user); },
      [&](std::uint64_t word) { return loops.is_loop(word); }, woven_, woven_counts_);
  words_.assign(sample.kernel_frames.begin(), sample.kernel_frames.end());
  words_.insert(words_.end(), woven_.begin(), woven_.end());
  words_.insert(words_.end(), sample.mapping_ids.begin(), sample.mapping_ids.end());
  SampleView woven = sample;
  woven.words = words_;
  woven.kernel_frames = woven.words.first(sample.kernel_frames.size());
  woven.user_frames = woven.words.subspan(sample.kernel_frames.size(), woven_.size());
  woven.mapping_ids = woven.words.last(sample.mapping_ids.size());
  next_.on_sample(woven);
}

void Unwinding::on(const ProcessView& process) noexcept {
  files_.add_process(process.process, process.uid);
  next_.on_process(process);
}
void Unwinding::on(const UnmapView& unmap) noexcept { next_.on_unmap(unmap); }
void Unwinding::on(const BlockEndView& end) noexcept { next_.on_block_end(end); }

// Its only user frame is the innermost one, as no memory of the process was read.
void Unwinding::on(const WholeBlockView& block) noexcept {
  WholeBlockView complete = block;
  std::array<std::uint64_t, 1> frame{};
  std::array<std::uint64_t, 1> mapping_id{};
  if (block.user_ip != 0) {
    const CodeMapping* const mapping = mappings_.find(block.process, block.user_ip);
    const bool is_call = block.context == PROFD_CONTEXT_SYSCALL;
    if (mapping != nullptr) {
      mapping_id[0] = mapping->id;
      complete.mapping_ids = mapping_id;
    }
    frame[0] = leaf_word(block.user_ip, mapping != nullptr,
                         is_call ? PROFD_FRAME_SYSCALL : PROFD_FRAME_INTERRUPTED);
    complete.user_frames = frame;
  }
  next_.on_whole_block(complete);
}

void Unwinding::on(const MappingView& mapping) noexcept {
  auto file = files_.find_or_open(mapping);
  mappings_.add(mapping, files_.user_of(mapping.process));
  if (file && !file->fd.valid()) keep_until_open(mapping, *file);
  apply(mapping, std::move(file));
}

void Unwinding::keep_until_open(const MappingView& mapping, const MappedFile& file) {
  if (!file.is_opening && !may_open_later_by(mapping.process, file)) return;
  LateMapping late{
      .mapping = mapping, .names_cut = mapping.names_cut, .names = std::string(mapping.names)};
  if (file.is_opening) {
    std::vector<LateMapping>& waiting = opening_[mapping.file];
    if (waiting.size() < kMaxWaitingForFile) {
      waiting.push_back(std::move(late));
      return;
    }
  }
  late_mappings_.add({mapping.process, mapping.id}, files_.user_of(mapping.process),
                     std::move(late), Clock::now());
}

// While the file is being opened, stacks wait for its table.
void Unwinding::apply(const MappingView& mapping, std::shared_ptr<const MappedFile> file) {
  const bool has_code = mapping.kind == PROFD_MAPPING_FILE && !mapping.file.empty();
  if (has_code && !(file && file->is_opening)) request_or_cover(mapping, file);
  next_.on_mapping(mapping, std::move(file));
}

// The open has ended. The next stage gets the mappings that waited for it once more.
void Unwinding::continue_with(const std::shared_ptr<const MappedFile>& file) {
  if (const auto waiting = opening_.extract(file->key)) {
    for (const LateMapping& late : waiting.mapped()) {
      const MappingView mapping{late.mapping, late.names_cut, late.names};
      if (file->fd.valid()) {
        late_mappings_.remove({mapping.process, mapping.id});
      } else {
        keep_until_open(mapping, *file);
      }
      apply(mapping, file);
    }
  }
  if (const auto wanted = wanted_.extract(file->key)) {
    const WantedTable& table = wanted.mapped();
    want_table(table.mapping, table.regions, table.urgency);
  }
}

// The next stage gets the mapping once more, with its file. True: no further try is needed. The
// file of a process that has ended may be open already; else it is opened by its names, once.
bool Unwinding::open_again(const LateMapping& late) {
  const bool has_ended = is_gone(late.mapping.process);
  if (has_ended) {
    const auto known = files_.find(late.mapping.file);
    if (known && !known->fd.valid() && !known->is_opening) return true;
  }
  const MappingView mapping{late.mapping, late.names_cut, late.names};
  auto file = files_.find_or_open(mapping);
  if (file->is_opening) keep_until_open(mapping, *file);
  if (!file->fd.valid()) {
    return !file->is_opening && (has_ended || !may_open_later_by(mapping.process, *file));
  }
  apply(mapping, std::move(file));
  return true;
}

// A user pays for what the user's processes map. Whose a file of root's process is, is known when
// it is open.
MappedCode Unwinding::mapped_code(const CodeMapping& mapping, const MappedFile* opened) {
  std::uint32_t payer = files_.user_of(mapping.process);
  if (payer == 0) {
    payer = opened != nullptr && opened->fd.valid() ? opened->owner : kUnknownUser;
  }
  return {.key = mapping.file, .payer = payer, .regions = regions_of_mapping(mapping)};
}

// True: no further try is needed. A file that nothing uses any more is loaded with its next record.
bool Unwinding::load_again(const MappedCode& code) {
  if (loading_.contains(code.key)) return false;
  const auto file = files_.find(code.key);
  if (!file || !file->fd.valid() || tables_.state(code.key) != UnwindTables::State::kNone) {
    return true;
  }
  tables_.forget(code.key);
  load(code, file, TableLoader::Urgency::kBackground);
  return false;
}

void Unwinding::request_or_cover(const MappingView& mapping,
                                 const std::shared_ptr<const MappedFile>& file) {
  const UnwindTables::State state = tables_.state(mapping.file);
  if (state == UnwindTables::State::kReady && tables_.payer_of(mapping.file) == 0) {
    tables_.cover({.key = mapping.file, .payer = 0, .regions = regions_of_mapping(mapping)});
    return;
  }
  const MappedCode code = mapped_code(mapping, file.get());
  if (state == UnwindTables::State::kNone && is_worth_retrying(code, file && file->fd.valid())) {
    tables_.forget(code.key);
  } else if (state != UnwindTables::State::kUnknown) {
    tables_.cover(code);
    return;
  }
  load(code, file, TableLoader::Urgency::kStacksWait);
}

// What was refused for one user's use of memory is not refused for others.
bool Unwinding::is_worth_retrying(const MappedCode& file, bool can_be_read) const {
  const auto refusal = tables_.refusal_of(file.key);
  if (!refusal || !is_temporary(refusal->reason)) return false;
  if (refusal->reason == TableRefusal::kVanished) return can_be_read;
  if (refusal->reason == TableRefusal::kOverShare && file.payer != tables_.payer_of(file.key)) {
    return true;
  }
  return nanoseconds_of((Clock::now() - kNewRequestInterval).time_since_epoch()) >=
         refusal->since_ns;
}

// For a deferred stack that waits for a table: the table is being made already, or was evicted.
void Unwinding::request_unless_loading(const CodeMapping& mapping) {
  if (loading_.contains(mapping.file)) return;
  want_table(mapping, regions_of_mapping(mapping), TableLoader::Urgency::kStacksWait);
}

void Unwinding::want_table(const CodeMapping& mapping, const FileRegions& regions,
                           TableLoader::Urgency urgency) {
  const auto file = files_.find_or_open(MappingView{mapping});
  if (file && file->is_opening) {
    const auto [wanted, is_new] =
        wanted_.try_emplace(mapping.file, WantedTable{mapping, regions, urgency});
    if (!is_new) wanted->second.regions |= regions;
    if (urgency == TableLoader::Urgency::kStacksWait) wanted->second.urgency = urgency;
    return;
  }
  MappedCode code = mapped_code(mapping, file.get());
  code.regions |= regions;
  load(code, file, urgency);
}

void Unwinding::load(const MappedCode& file, const std::shared_ptr<const MappedFile>& opened,
                     TableLoader::Urgency urgency) {
  const auto [known, added] = loading_.try_emplace(file.key, file);
  known->second.regions |= file.regions;
  if (!added) {
    if (urgency == TableLoader::Urgency::kStacksWait) loader_->prioritize(file.key);
    return;
  }
  if (!opened || !opened->fd.valid()) {
    loading_.erase(known);
    refuse(file, TableRefusal::kVanished);
  } else if (!loader_->request(opened, urgency)) {
    loading_.erase(known);
    refuse(file, TableRefusal::kQueueFull);
  }
}

void Unwinding::refuse(const MappedCode& file, TableRefusal reason) {
  count_refusal(file, reason);
  if (is_worth_another_load(reason)) {
    MappedCode later = file;
    later.runtime = 0;  // the number may be another file's by then
    late_tables_.add(file.key, file.payer, later, Clock::now());
  } else {
    late_tables_.remove(file.key);
  }
}

// A file that vanished is that of a process that has ended, mostly.
void Unwinding::count_refusal(const MappedCode& file, TableRefusal reason) {
  if (!tables_.refuse(file, reason)) return;
  if (refusals_ == nullptr || reason == TableRefusal::kVanished) return;
  refusals_->add(file.payer, "unwinding.tables.refused." + std::string(name_of(reason)));
}

void Unwinding::set_jit_code_rows(const ProcessKey& process, std::uint32_t owner,
                                  std::uint32_t area, EncodeTable encode) {
  const FileKey key = jit_code_location(process, std::uint64_t{area} << PROFD_JIT_AREA_SHIFT).key;
  // Rows of different areas are never shared, so the content is named by the area.
  std::string content = "jit-" + std::to_string(process.tgid) + "-" +
                        std::to_string(process.start_ns) + "-" + std::to_string(process.exec_id) +
                        "-" + std::to_string(area);
  loading_.try_emplace(key,
                       MappedCode{.key = key, .payer = owner, .regions = {}, .process = process});
  loader_->request_jit_code(key, owner, std::move(content), std::move(encode));
}

// Keeps a result for which there was no room. False: it has no room soon, or too many wait already.
bool Unwinding::keep_until_room(LoadResult& result, TableRefusal refusal) {
  const bool may_have_room = tables_.has_room_soon() && (refusal == TableRefusal::kOverMemory ||
                                                         refusal == TableRefusal::kOverShare);
  if (!may_have_room) return false;
  if (!result.encode) {
    late_results_.push_back(std::move(result));
    return true;
  }
  std::size_t bytes = result.table->bytes.size();
  for (const LoadResult& late : late_jit_tables_) bytes += late.table->bytes.size();
  if (bytes > kMaxLateJitBytes) return false;
  late_jit_tables_.push_back(std::move(result));
  return true;
}

bool Unwinding::poll() {
  const Clock::time_point now = Clock::now();
  const std::uint64_t now_ns = nanoseconds_of(now.time_since_epoch());
  tables_.tick(now_ns);
  mappings_.tick(now_ns);
  for (const auto& file : files_.take_opened()) continue_with(file);
  const bool has_late = install_late_jit_tables(now + kMaxTurn);
  const bool has_results = install_results(now + kMaxTurn);
  const bool has_stacks = deferred_.poll(now, now + kMaxTurn);
  late_mappings_.try_due(now, [this](const LateMapping& late) { return open_again(late); });
  late_tables_.try_due(now, [this](const MappedCode& code) { return load_again(code); });
  return has_late || has_results || has_stacks;
}

// Tables of JIT code that have no room yet keep no others waiting. True: there was no time for all.
bool Unwinding::install_late_jit_tables(Clock::time_point end) {
  for (std::size_t left = late_jit_tables_.size(); left > 0; --left) {
    if (Clock::now() >= end) return true;
    LoadResult result = std::move(late_jit_tables_.front());
    late_jit_tables_.pop_front();
    install(std::move(result));
    if (late_jit_tables_.size() == left) return false;  // it has no room yet
  }
  return false;
}

// Tables that had no room come first, and new ones only once they have some. True: there are more.
bool Unwinding::install_results(Clock::time_point end) {
  if (results_.empty())
    std::ranges::move(std::exchange(late_results_, {}), std::back_inserter(results_));
  do {
    if (results_.empty() && late_results_.empty()) {
      std::ranges::move(loader_->take(), std::back_inserter(results_));
    }
    if (results_.empty()) return false;
    LoadResult result = std::move(results_.front());
    results_.pop_front();
    install(std::move(result));
  } while (Clock::now() < end);
  return !results_.empty();
}

void Unwinding::install(LoadResult result) {
  const auto known = loading_.find(result.file);
  if (known == loading_.end()) return;
  MappedCode file = known->second;
  file.runtime = runtime_number(result, file.payer);
  std::optional<TableRefusal> refusal = result.refusal;
  if (result.table) {
    const UnwindTableView& table = result.table->view;
    refusal = result.encode ? tables_.replace(file, result.content, table)
                            : tables_.install(file, result.content, table);
    if (refusal && keep_until_room(result, *refusal)) return;
  }
  loading_.erase(known);
  if (refusal) {
    refuse(file, *refusal);
  } else {
    late_tables_.remove(file.key);
  }
  // Without room for the file itself, nothing removes it later.
  if (tables_.state(file.key) == UnwindTables::State::kUnknown) runtimes_->remove(file.key);
}

// Once for each file, before an entry has the number. JIT code has no interpreter.
std::uint16_t Unwinding::runtime_number(const LoadResult& result, std::uint32_t payer) {
  if (result.encode) return 0;
  const auto file = files_.find(result.file);
  return runtimes_->add(result.file, result.runtime, file ? file->path : std::string(), payer);
}

UnwindStats Unwinding::stats() const {
  UnwindStats stats;
  tables_.add_to(stats);
  deferred_.add_to(stats);
  stats.loading = loading_.size() + wanted_.size();
  stats.parser_restarts = loader_->parser_restarts();
  return stats;
}

InterpreterStats Unwinding::interpreter_stats() const {
  InterpreterStats stats;
  stats.is_supported = runtimes_->maps() != nullptr;
  stats.woven = woven_counts_;
  stats.orphans = pending_.orphans();
  stats.without_table = without_table_;
  if (codes_ != nullptr) stats.codes = codes_->stats();
  stats.verdicts = runtimes_->counts();
  stats.files = runtimes_->list();
  return stats;
}

}  // namespace profd
