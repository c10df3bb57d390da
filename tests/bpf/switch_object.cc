#include "tests/bpf/switch_object.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace profd::test {
namespace {

constexpr std::array kSharedMaps = {"profd_filter",   "profd_targets", "profd_comms",
                                    "profd_uids",     "profd_cgroups", "profd_tables",
                                    "profd_arenas",   "profd_rules",   "profd_rings",
                                    "profd_runtimes", "profd_layouts", "profd_code_tags"};

void require_switch(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("the switch object: " + what);
}

// All counters are 64-bit numbers without anything between them.
template <typename Counters>
Counters sum_of_cpus(int map) {
  constexpr std::size_t kNumbers = sizeof(Counters) / sizeof(std::uint64_t);
  const std::uint32_t zero = 0;
  std::vector<std::array<std::uint64_t, kNumbers>> cpus(
      static_cast<std::size_t>(libbpf_num_possible_cpus()));
  require_switch(bpf_map_lookup_elem(map, &zero, cpus.data()) == 0, "no counters");
  std::array<std::uint64_t, kNumbers> sum{};
  for (const auto& cpu : cpus) {
    for (std::size_t i = 0; i < kNumbers; ++i) sum.at(i) += cpu.at(i);
  }
  Counters counters{};
  std::memcpy(&counters, sum.data(), sizeof(counters));
  return counters;
}

}  // namespace

SwitchObject::SwitchObject(const Programs& shared) {
  std::vector<char> log(1 << 20);
  bpf_object_open_opts options{};
  options.sz = sizeof(options);
  options.object_name = "profd_switch";
  options.kernel_log_buf = log.data();
  options.kernel_log_size = log.size();
  object_ = bpf_object__open_file(PROFD_TEST_SWITCH_OBJECT, &options);
  require_switch(object_ != nullptr, "cannot be opened");
  for (const char* name : kSharedMaps) {
    const auto fd = shared.map(name);
    bpf_map* const map = bpf_object__find_map_by_name(object_, name);
    require_switch(fd && map != nullptr && bpf_map__reuse_fd(map, *fd) == 0,
                   std::string("cannot share ") + name);
  }
  if (bpf_object__load(object_) == 0) return;
  const std::string text(log.data(), ::strnlen(log.data(), log.size()));
  bpf_object__close(object_);
  require_switch(false, text.substr(text.size() > 2000 ? text.size() - 2000 : 0));
}

SwitchObject::~SwitchObject() { bpf_object__close(object_); }

int SwitchObject::map(const char* name) const {
  const int fd = bpf_object__find_map_fd_by_name(object_, name);
  require_switch(fd >= 0, std::string("no map ") + name);
  return fd;
}

int SwitchObject::program(const char* name) const {
  const bpf_program* found = bpf_object__find_program_by_name(object_, name);
  require_switch(found != nullptr, std::string("no program ") + name);
  return bpf_program__fd(found);
}

UniqueFd SwitchObject::attach(const char* name) const {
  UniqueFd link(bpf_raw_tracepoint_open(nullptr, program(name)));
  require_switch(link.valid(), std::string("cannot attach ") + name);
  return link;
}

std::string SwitchObject::read(const char* name, std::uint32_t only_tgid) const {
  bpf_iter_link_info info{};
  info.task.tid = only_tgid;
  bpf_link_create_opts options{};
  options.sz = sizeof(options);
  options.iter_info = &info;
  options.iter_info_len = sizeof(info);
  const UniqueFd link(bpf_link_create(program(name), 0, BPF_TRACE_ITER, &options));
  const UniqueFd iterator(link.valid() ? bpf_iter_create(link.get()) : -1);
  require_switch(iterator.valid(), std::string("cannot read ") + name);
  std::string bytes;
  std::array<char, 1 << 14> chunk;
  for (;;) {
    const ssize_t got = ::read(iterator.get(), chunk.data(), chunk.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    require_switch(got >= 0, std::string("cannot read ") + name);
    if (got == 0) return bytes;
    bytes.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

void SwitchObject::set_rate(const profd_block_rate& rate) const {
  const std::uint32_t zero = 0;
  require_switch(bpf_map_update_elem(map("profd_block_rate"), &zero, &rate, BPF_ANY) == 0,
                 "cannot set the rate");
}

profd_switch_counters SwitchObject::switches() const {
  return sum_of_cpus<profd_switch_counters>(map("profd_switch_counters"));
}

profd_counters SwitchObject::counters() const {
  return sum_of_cpus<profd_counters>(map("profd_counters"));
}

SentWholeBlock whole_block_in(const char* bytes, std::size_t size) {
  SentWholeBlock whole{};
  require_switch(size >= sizeof(whole.block), "a whole block that is cut off");
  std::memcpy(&whole.block, bytes, sizeof(whole.block));
  whole.frames.resize(whole.block.kernel_frames);
  require_switch(whole.block.header.size == sizeof(whole.block) + whole.frames.size() * 8 &&
                     size >= whole.block.header.size,
                 "a whole block of another size");
  if (whole.frames.empty()) return whole;
  std::memcpy(whole.frames.data(), bytes + sizeof(whole.block), whole.frames.size() * 8);
  return whole;
}

std::vector<SentWholeBlock> whole_blocks_in(const std::string& bytes) {
  std::vector<SentWholeBlock> blocks;
  for (std::size_t at = 0; at < bytes.size(); at += blocks.back().block.header.size) {
    blocks.push_back(whole_block_in(bytes.data() + at, bytes.size() - at));
  }
  return blocks;
}

BlockRecords::BlockRecords(const Programs& programs) {
  rings_ = ring_buffer__new(programs.rings().front().get(), take, this, nullptr);
  require_switch(rings_ != nullptr, "no rings");
  for (std::size_t i = 1; i < programs.rings().size(); ++i) {
    require_switch(ring_buffer__add(rings_, programs.rings()[i].get(), take, this) == 0,
                   "a ring is missing");
  }
}

BlockRecords::~BlockRecords() { ring_buffer__free(rings_); }

void BlockRecords::consume() { ring_buffer__consume(rings_); }

int BlockRecords::take(void* context, void* data, std::size_t size) noexcept {
  auto* const records = static_cast<BlockRecords*>(context);
  try {
    records->take_record(static_cast<const char*>(data), size);
  } catch (const std::runtime_error&) {
    ++records->malformed;
  }
  return 0;
}

void BlockRecords::take_record(const char* bytes, std::size_t size) {
  profd_record_header header{};
  require_switch(size >= sizeof(header), "a record without a header");
  std::memcpy(&header, bytes, sizeof(header));
  require_switch(header.size == size, "a record of another size");
  if (header.type == PROFD_RECORD_WHOLE_BLOCK) wholes.push_back(whole_block_in(bytes, size));
  if (header.type == PROFD_RECORD_BLOCK_END) {
    profd_block_end end{};
    require_switch(size == sizeof(end), "an end of another size");
    std::memcpy(&end, bytes, sizeof(end));
    require_switch(ends.emplace(end.id, end.end_ns).second, "two ends of a block");
  }
  if (header.type != PROFD_RECORD_BLOCK) return;
  SentBlock start{};
  constexpr std::size_t kFixed = sizeof(start.block) + sizeof(start.sample);
  require_switch(size >= kFixed, "a block without a sample");
  std::memcpy(&start.block, bytes, sizeof(start.block));
  std::memcpy(&start.sample, bytes + sizeof(start.block), sizeof(start.sample));
  require_switch(start.sample.header.type == PROFD_RECORD_SAMPLE &&
                     start.sample.header.size == size - sizeof(start.block),
                 "a block with another record in it");
  start.words.resize((size - kFixed) / 8);
  require_switch(!start.words.empty(), "a block without frames");
  std::memcpy(start.words.data(), bytes + kFixed, start.words.size() * 8);
  starts.push_back(std::move(start));
}

std::vector<const SentBlock*> BlockRecords::ended(std::uint32_t tid) const {
  std::vector<const SentBlock*> found;
  for (const SentBlock& start : starts) {
    if (start.sample.tid == tid && ends.contains(start.block.id)) found.push_back(&start);
  }
  return found;
}

std::uint64_t BlockRecords::ns_of(const SentBlock& start) const {
  return ends.at(start.block.id) - start.sample.time_ns;
}

std::vector<const SentWholeBlock*> BlockRecords::wholes_of(std::uint32_t tid) const {
  std::vector<const SentWholeBlock*> found;
  for (const SentWholeBlock& whole : wholes) {
    if (whole.block.tid == tid) found.push_back(&whole);
  }
  return found;
}

}  // namespace profd::test
