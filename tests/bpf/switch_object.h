// The object of the switches on this kernel, by libbpf alone, with the maps that it shares with the
// programs of the sampler; and the records that it sends, joined.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bpf/block_abi.h"
#include "collectors/bpf/programs.h"
#include "formats/base/unique_fd.h"

struct bpf_object;
struct ring_buffer;

namespace profd::test {

// Throws std::runtime_error where the kernel refuses something.
class SwitchObject {
 public:
  explicit SwitchObject(const Programs& shared);
  SwitchObject(const SwitchObject&) = delete;
  SwitchObject& operator=(const SwitchObject&) = delete;
  ~SwitchObject();

  [[nodiscard]] int program(const char* name) const;
  [[nodiscard]] UniqueFd attach(const char* name) const;
  // All that an iterator over tasks writes; only of one process where `only_tgid` is not 0.
  [[nodiscard]] std::string read(const char* name, std::uint32_t only_tgid = 0) const;
  void set_rate(const profd_block_rate& rate) const;
  // Sums over all CPUs.
  [[nodiscard]] profd_switch_counters switches() const;
  [[nodiscard]] profd_counters counters() const;

 private:
  [[nodiscard]] int map(const char* name) const;

  bpf_object* object_ = nullptr;
};

struct SentBlock {
  profd_block block;
  profd_sample sample;
  std::vector<std::uint64_t> words;
};

struct SentWholeBlock {
  profd_whole_block block;
  std::vector<std::uint64_t> frames;
};

[[nodiscard]] SentWholeBlock whole_block_in(const char* bytes, std::size_t size);
// What the iterator profd_open_blocks wrote.
[[nodiscard]] std::vector<SentWholeBlock> whole_blocks_in(const std::string& bytes);

// What the rings hold, as it was sent. Checks the sizes of all records of blocks.
class BlockRecords {
 public:
  explicit BlockRecords(const Programs& programs);
  BlockRecords(const BlockRecords&) = delete;
  BlockRecords& operator=(const BlockRecords&) = delete;
  ~BlockRecords();

  void consume();
  // The starts of a thread whose ends have come.
  [[nodiscard]] std::vector<const SentBlock*> ended(std::uint32_t tid) const;
  [[nodiscard]] std::uint64_t ns_of(const SentBlock& start) const;
  [[nodiscard]] std::vector<const SentWholeBlock*> wholes_of(std::uint32_t tid) const;

  std::vector<SentBlock> starts;
  std::map<std::uint64_t, std::uint64_t> ends;  // by id
  std::vector<SentWholeBlock> wholes;
  std::uint64_t malformed = 0;

 private:
  static int take(void* context, void* data, std::size_t size) noexcept;
  void take_record(const char* bytes, std::size_t size);

  ring_buffer* rings_ = nullptr;
};

}  // namespace profd::test
