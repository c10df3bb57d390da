#include "collectors/bpf/record.h"

#include <bpf/libbpf.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

namespace profd {
namespace {

using Bytes = std::span<const std::byte>;

// To read the clock costs about as much as a record.
constexpr unsigned kRecordsBetweenClocks = 32;
constexpr int kStop = -ECANCELED;  // what ring_buffer__consume() returns then

constexpr std::size_t kRegistersWords = sizeof(profd_deferred_stack) / sizeof(std::uint64_t);

// Copies a struct out of the front of `bytes` and removes it there. False when `bytes` is too
// short.
template <class T>
bool take(Bytes& bytes, T& value) {
  if (bytes.size() < sizeof(T)) return false;
  std::memcpy(&value, bytes.data(), sizeof(T));
  bytes = bytes.subspan(sizeof(T));
  return true;
}

bool is_aligned(Bytes bytes) { return reinterpret_cast<std::uintptr_t>(bytes.data()) % 8 == 0; }

ProcessKey to_process_key(const profd_process_key& key) {
  return {.tgid = key.tgid, .exec_id = key.exec_id, .start_ns = key.start_ns};
}

std::optional<ProcessOwner> to_owner(const profd_owner& owner) {
  if (owner.uid == PROFD_NO_OWNER) return std::nullopt;
  return ProcessOwner{.uid = owner.uid, .gid = owner.gid};
}

// A sample has deferred words exactly when its stack is deferred, which happens at a user frame.
bool deferred_words_are_valid(const profd_sample& sample) {
  if (sample.user_end != PROFD_END_DEFERRED) return sample.deferred_words == 0;
  return sample.user_frames != 0 && sample.deferred_words >= kRegistersWords &&
         sample.deferred_words <=
             kRegistersWords + PROFD_DEFERRED_WINDOW_BYTES / sizeof(std::uint64_t);
}

bool counts_are_valid(const profd_sample& sample) {
  return sample.kernel_frames <= PROFD_MAX_KERNEL_FRAMES &&
         sample.user_frames <= PROFD_MAX_USER_FRAMES &&
         sample.mapping_count <= PROFD_MAX_STACK_MAPPINGS && sample.user_end < PROFD_END_COUNT &&
         sample.context < PROFD_CONTEXT_COUNT && sample.event_set < PROFD_MAX_EVENT_SETS &&
         sample.interpreted < PROFD_INTERPRETED_COUNT && sample.sessions != 0 &&
         deferred_words_are_valid(sample);
}

// Every frame refers to a mapping of the list, or to none.
bool frames_are_valid(const SampleView& view) {
  return std::ranges::all_of(view.user_frames, [&](std::uint64_t word) {
    const UserFrame frame = UserFrame::from_word(word);
    return (frame.mapping < view.mapping_ids.size() || frame.mapping == PROFD_NO_MAPPING) &&
           frame.how < PROFD_FRAME_HOW_COUNT;
  });
}

// The registers are those of the last user frame.
bool registers_are_valid(const DeferredSampleView& view) {
  const UserFrame last = UserFrame::from_word(view.sample.user_frames.back());
  return (view.registers->ip & PROFD_FRAME_ADDRESS_MASK) == last.address &&
         view.registers->window_start % sizeof(std::uint64_t) == 0;
}

SampleView to_view(const profd_sample& sample, std::span<const std::uint64_t> words) {
  return {.process = to_process_key(sample.process),
          .time_ns = sample.time_ns,
          .period = sample.period,
          .tid = sample.tid,
          .cpu = sample.cpu,
          .sessions = sample.sessions,
          .owner = to_owner(sample.owner),
          .context = static_cast<profd_context>(sample.context),
          .user_end = static_cast<profd_user_end>(sample.user_end),
          .kernel_truncated = sample.kernel_truncated != 0,
          .event_set = sample.event_set,
          .thread = std::to_array(sample.thread),
          .words = words,
          .kernel_frames = words.first(sample.kernel_frames),
          .user_frames = words.subspan(sample.kernel_frames, sample.user_frames),
          .mapping_ids = words.last(sample.mapping_count),
          .interpreted = static_cast<profd_interpreted>(sample.interpreted)};
}

std::optional<Record> parse_sample(Bytes bytes) {
  profd_sample sample;
  if (!take(bytes, sample) || !counts_are_valid(sample)) return std::nullopt;
  const std::size_t count = std::size_t{sample.kernel_frames} + sample.user_frames +
                            sample.mapping_count + sample.deferred_words;
  if (bytes.size() != count * sizeof(std::uint64_t)) return std::nullopt;
  // Size and alignment are checked, and the ring holds nothing but such words here.
  const std::span all(reinterpret_cast<const std::uint64_t*>(bytes.data()), count);
  const SampleView view = to_view(sample, all.first(count - sample.deferred_words));
  if (!frames_are_valid(view)) return std::nullopt;
  if (sample.user_end != PROFD_END_DEFERRED) return view;
  const std::span deferred = all.last(sample.deferred_words);
  const DeferredSampleView deferred_view{
      .sample = view,
      .registers = reinterpret_cast<const profd_deferred_stack*>(deferred.data()),
      .window = deferred.subspan(kRegistersWords)};
  if (!registers_are_valid(deferred_view)) return std::nullopt;
  return deferred_view;
}

// Path components, each ended by NUL: `bytes` is empty or ends in NUL.
std::optional<std::string_view> take_names(Bytes bytes, std::size_t count) {
  if (bytes.size() != count || count > PROFD_MAX_NAME_BYTES) return std::nullopt;
  const std::string_view names(reinterpret_cast<const char*>(bytes.data()), count);
  if (!names.empty() && names.back() != '\0') return std::nullopt;
  return names;
}

std::optional<Record> parse_mapping(Bytes bytes) {
  profd_mapping mapping;
  if (!take(bytes, mapping)) return std::nullopt;
  const auto names = take_names(bytes, mapping.name_bytes);
  if (!names || mapping.kind > PROFD_MAPPING_VDSO || mapping.start >= mapping.end ||
      mapping.id == 0) {
    return std::nullopt;
  }
  const CodeMapping code{.process = to_process_key(mapping.process),
                         .time_ns = mapping.time_ns,
                         .id = mapping.id,
                         .start = mapping.start,
                         .end = mapping.end,
                         .file_offset = mapping.file_offset,
                         .file = to_key(mapping.file),
                         .kind = static_cast<profd_mapping_kind>(mapping.kind),
                         .on_fuse = mapping.on_fuse != 0};
  return MappingView{code, mapping.names_cut != 0, *names};
}

std::optional<Record> parse_process(Bytes bytes) {
  const Bytes whole = bytes;
  profd_process process;
  if (!take(bytes, process)) return std::nullopt;
  const auto cgroup = take_names(bytes, process.cgroup_bytes);
  if (!cgroup) return std::nullopt;
  // The view borrows the comm from the record, not from the copy here.
  const auto* comm =
      reinterpret_cast<const char*>(whole.subspan(offsetof(profd_process, comm)).data());
  return ProcessView{.process = to_process_key(process.process),
                     .time_ns = process.time_ns,
                     .executable = to_key(process.executable),
                     .cgroup_id = process.cgroup_id,
                     .uid = process.uid,
                     .parent_tgid = process.parent_tgid,
                     .kernel_thread = process.kernel_thread != 0,
                     .comm = std::string_view(comm, ::strnlen(comm, PROFD_COMM_BYTES)),
                     .cgroup = *cgroup};
}

std::optional<Record> parse_unmap(Bytes bytes) {
  profd_unmap unmap;
  if (!take(bytes, unmap) || !bytes.empty() || unmap.start >= unmap.end) return std::nullopt;
  return UnmapView{.process = to_process_key(unmap.process),
                   .time_ns = unmap.time_ns,
                   .start = unmap.start,
                   .end = unmap.end};
}

bool is_block_state(std::uint32_t state) {
  return state != PROFD_BLOCK_NONE && state < PROFD_BLOCK_STATE_COUNT;
}

// The sample of a block, whose own header has its size.
std::optional<Record> parse_block(Bytes bytes) {
  profd_block block;
  if (!take(bytes, block) || block.id == 0 || !is_block_state(block.state)) return std::nullopt;
  profd_record_header header;
  Bytes rest = bytes;
  if (!take(rest, header) || header.type != PROFD_RECORD_SAMPLE || header.size != bytes.size()) {
    return std::nullopt;
  }
  std::optional<Record> record = parse_sample(bytes);
  if (!record) return std::nullopt;
  const BlockPart part{.id = block.id,
                       .chance = block.chance,
                       .state = static_cast<profd_block_state>(block.state),
                       .unsampled = block.unsampled,
                       .unsampled_ns = block.unsampled_ns};
  if (auto* const deferred = std::get_if<DeferredSampleView>(&*record)) {
    deferred->sample.block = part;
  } else {
    std::get<SampleView>(*record).block = part;
  }
  return record;
}

std::optional<Record> parse_block_end(Bytes bytes) {
  profd_block_end end;
  if (!take(bytes, end) || !bytes.empty() || end.id == 0) return std::nullopt;
  return BlockEndView{.id = end.id, .end_ns = end.end_ns};
}

// An end follows exactly where the block is open.
bool whole_block_is_valid(const profd_whole_block& block) {
  constexpr unsigned kFlags = PROFD_BLOCK_OPEN | PROFD_BLOCK_FROM_BEFORE | PROFD_BLOCK_WAS_CHOSEN;
  const bool is_open = (block.flags & PROFD_BLOCK_OPEN) != 0;
  return (block.id != 0) == is_open && (block.flags & ~kFlags) == 0 &&
         block.start_ns <= block.end_ns && block.sessions != 0 && is_block_state(block.state) &&
         block.context < PROFD_CONTEXT_COUNT && block.kernel_frames <= PROFD_MAX_KERNEL_FRAMES;
}

std::optional<Record> parse_whole_block(Bytes bytes) {
  profd_whole_block block;
  if (!take(bytes, block) || !whole_block_is_valid(block)) return std::nullopt;
  const std::size_t count = block.kernel_frames;
  if (bytes.size() != count * sizeof(std::uint64_t)) return std::nullopt;
  return WholeBlockView{
      .process = to_process_key(block.process),
      .id = block.id,
      .start_ns = block.start_ns,
      .end_ns = block.end_ns,
      .owner = to_owner(block.owner),
      .user_ip = block.user_ip,
      .tid = block.tid,
      .sessions = block.sessions,
      .state = static_cast<profd_block_state>(block.state),
      .context = static_cast<profd_context>(block.context),
      .call = block.call,
      .is_open = (block.flags & PROFD_BLOCK_OPEN) != 0,
      .is_from_before = (block.flags & PROFD_BLOCK_FROM_BEFORE) != 0,
      .was_chosen = (block.flags & PROFD_BLOCK_WAS_CHOSEN) != 0,
      .thread = std::to_array(block.thread),
      .kernel_frames = std::span(reinterpret_cast<const std::uint64_t*>(bytes.data()), count)};
}

bool is_runtime_kind(std::uint8_t kind) {
  return kind != PROFD_RUNTIME_NONE && kind < PROFD_RUNTIME_KIND_COUNT;
}

bool interpreted_stack_is_valid(const profd_interpreted_stack& stack) {
  return stack.entries != 0 && stack.entries <= PROFD_MAX_INTERPRETED_ENTRIES &&
         is_runtime_kind(stack.kind) && stack.layout < PROFD_MAX_LAYOUTS &&
         stack.end < PROFD_CHAIN_END_COUNT && stack.of_block <= 1;
}

// The boundaries that the walk met: each lies further from the leaf than the one before, and so
// does its native frame.
bool entries_are_valid(std::span<const profd_interpreted_entry> entries) {
  std::uint64_t last_anchor = 0;
  std::uint32_t next_frame = 0;
  for (const profd_interpreted_entry& entry : entries) {
    if (entry.kind == PROFD_ENTRY_FRAME) {
      if (entry.value == 0) return false;
      continue;
    }
    if (entry.kind != PROFD_ENTRY_BOUNDARY) return false;
    if (entry.position == PROFD_NOT_MET) continue;
    if (entry.position < next_frame || entry.position >= PROFD_MAX_USER_FRAMES) return false;
    if (entry.value != 0 && entry.value <= last_anchor) return false;
    next_frame = entry.position + 1;
    if (entry.value != 0) last_anchor = entry.value;
  }
  return true;
}

std::optional<Record> parse_interpreted_stack(Bytes bytes) {
  profd_interpreted_stack stack;
  if (!take(bytes, stack) || !interpreted_stack_is_valid(stack)) return std::nullopt;
  const std::size_t count = stack.entries;
  if (bytes.size() != count * sizeof(profd_interpreted_entry)) return std::nullopt;
  // Size and alignment are checked, and the ring holds nothing but such entries here.
  const std::span entries(reinterpret_cast<const profd_interpreted_entry*>(bytes.data()), count);
  if (!entries_are_valid(entries)) return std::nullopt;
  return InterpretedStackView{.process = to_process_key(stack.process),
                              .time_ns = stack.time_ns,
                              .cpu = stack.cpu,
                              .kind = static_cast<profd_runtime_kind>(stack.kind),
                              .layout = stack.layout,
                              .end = static_cast<profd_chain_end>(stack.end),
                              .of_block = stack.of_block != 0,
                              .entries = entries};
}

// By profd_code_text.
constexpr std::array<std::size_t, PROFD_CODE_TEXTS> kMaxTextBytes = {
    PROFD_MAX_CODE_NAME_BYTES, PROFD_MAX_CODE_NAME_BYTES, PROFD_MAX_CODE_FILE_BYTES,
    PROFD_MAX_CODE_LINES_BYTES};

bool text_is_valid(std::uint8_t kind, std::size_t size, std::size_t max_size) {
  if (size > max_size) return false;
  switch (kind) {
    case PROFD_TEXT_ABSENT:
      return size == 0;
    case PROFD_TEXT_UCS_2:
    case PROFD_TEXT_UCS_4:
      return size % kind == 0;
    default:
      return kind == PROFD_TEXT_LATIN_1 || kind == PROFD_TEXT_BYTES;
  }
}

// Splits the texts behind a code object. False where they are not those that it announces.
bool take_texts(Bytes bytes, const profd_interpreted_code& code,
                std::array<RawText, PROFD_CODE_TEXTS>& texts) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::size_t size = code.text_bytes[i];
    const std::uint8_t kind = code.text_kind[i];
    if (size > bytes.size() || !text_is_valid(kind, size, kMaxTextBytes[i])) return false;
    texts[i] = {.bytes = {reinterpret_cast<const char*>(bytes.data()), size}, .kind = kind};
    bytes = bytes.subspan(size);
  }
  return bytes.empty();
}

std::optional<Record> parse_interpreted_code(Bytes bytes) {
  profd_interpreted_code code;
  if (!take(bytes, code) || code.id == 0 || !is_runtime_kind(code.kind) ||
      code.layout >= PROFD_MAX_LAYOUTS || code.cut >= 1U << PROFD_CODE_TEXTS) {
    return std::nullopt;
  }
  InterpretedCodeView view{.process = to_process_key(code.process),
                           .time_ns = code.time_ns,
                           .id = code.id,
                           .code = {.kind = code.kind,
                                    .layout = code.layout,
                                    .cut = code.cut,
                                    .address = code.address,
                                    .first_line = code.first_line,
                                    .units = code.units}};
  if (!take_texts(bytes, code, view.code.texts)) return std::nullopt;
  return view;
}

}  // namespace

FileKey to_key(const profd_file_key& key) {
  return {.inode = key.inode,
          .size_bytes = key.size,
          .ctime_ns = key.ctime_ns,
          .device = key.device,
          .generation = key.generation};
}

profd_file_key to_abi(const FileKey& key) {
  return {.inode = key.inode,
          .size = key.size_bytes,
          .ctime_ns = key.ctime_ns,
          .device = key.device,
          .generation = key.generation};
}

std::optional<Record> parse_record(Bytes bytes) {
  profd_record_header header;
  Bytes rest = bytes;
  if (!is_aligned(bytes) || !take(rest, header) || header.size != bytes.size()) {
    return std::nullopt;
  }
  switch (header.type) {
    case PROFD_RECORD_SAMPLE:
      return parse_sample(bytes);
    case PROFD_RECORD_MAPPING:
      return parse_mapping(bytes);
    case PROFD_RECORD_PROCESS:
      return parse_process(bytes);
    case PROFD_RECORD_UNMAP:
      return parse_unmap(bytes);
    case PROFD_RECORD_BLOCK:
      return parse_block(bytes);
    case PROFD_RECORD_BLOCK_END:
      return parse_block_end(bytes);
    case PROFD_RECORD_WHOLE_BLOCK:
      return parse_whole_block(bytes);
    case PROFD_RECORD_INTERPRETED_STACK:
      return parse_interpreted_stack(bytes);
    case PROFD_RECORD_INTERPRETED_CODE:
      return parse_interpreted_code(bytes);
    default:
      return std::nullopt;
  }
}

std::uint32_t sessions_of_refused(Bytes bytes) {
  profd_block block;
  Bytes rest = bytes;
  if (take(rest, block) && block.header.type == PROFD_RECORD_BLOCK) bytes = rest;
  profd_sample sample;
  if (!take(bytes, sample) || sample.header.type != PROFD_RECORD_SAMPLE) return 0;
  return sample.sessions;
}

std::optional<std::vector<WholeBlockView>> parse_open_blocks(Bytes bytes) {
  std::vector<WholeBlockView> blocks;
  while (!bytes.empty()) {
    profd_record_header header;
    Bytes rest = bytes;
    if (!take(rest, header) || header.size > bytes.size() || header.size % 8 != 0) {
      return std::nullopt;
    }
    const std::optional<Record> record = parse_record(bytes.first(header.size));
    const auto* const block = record ? std::get_if<WholeBlockView>(&*record) : nullptr;
    if (block == nullptr) return std::nullopt;
    blocks.push_back(*block);
    bytes = bytes.subspan(header.size);
  }
  return blocks;
}

Result<std::unique_ptr<RecordReader>> RecordReader::open(const std::vector<UniqueFd>& rings,
                                                         RecordHandler handler) {
  std::unique_ptr<RecordReader> reader(new RecordReader(std::move(handler)));
  reader->wake_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!reader->wake_.valid()) return fail_errno("could not make an epoll instance");
  for (const UniqueFd& ring : rings) {
    std::unique_ptr<ring_buffer, Free> opened(
        ring_buffer__new(ring.get(), on_bytes, reader.get(), nullptr));
    if (!opened) return fail_errno("could not map a ring buffer");
    const int fd = ring_buffer__epoll_fd(opened.get());
    epoll_event readable{.events = EPOLLIN, .data = {}};
    if (::epoll_ctl(reader->wake_.get(), EPOLL_CTL_ADD, fd, &readable) != 0) {
      return fail_errno("could not wait for a ring buffer");
    }
    reader->rings_.push_back(std::move(opened));
  }
  return reader;
}

void RecordReader::Free::operator()(ring_buffer* ring) const noexcept { ring_buffer__free(ring); }

bool RecordReader::drain() {
  turn_end_ = std::chrono::steady_clock::now() + kMaxTurn;
  until_clock_ = kRecordsBetweenClocks;
  for (std::size_t i = 0; i < rings_.size(); ++i) {
    const bool is_over = ring_buffer__consume(rings_[next_].get()) == kStop;
    next_ = (next_ + 1) % rings_.size();
    if (is_over) return true;
  }
  return false;
}

// libbpf's callback. libbpf is C: no exception may pass through it. After kStop the record counts
// as taken.
int RecordReader::on_bytes(void* context, void* data, std::size_t size) noexcept {
  auto& reader = *static_cast<RecordReader*>(context);
  reader.read({static_cast<const std::byte*>(data), size});
  if (--reader.until_clock_ != 0) return 0;
  reader.until_clock_ = kRecordsBetweenClocks;
  return std::chrono::steady_clock::now() < reader.turn_end_ ? 0 : kStop;
}

void RecordReader::read(Bytes bytes) noexcept {
  if (const std::optional<Record> record = parse_record(bytes)) {
    handler_(*record);
    return;
  }
  ++malformed_.records;
  for (std::uint32_t rest = sessions_of_refused(bytes); rest != 0; rest &= rest - 1) {
    ++malformed_.samples[static_cast<std::size_t>(std::countr_zero(rest))];
  }
}

}  // namespace profd
