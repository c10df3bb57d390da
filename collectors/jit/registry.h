// Which process has which code: the processes that make code, the files that tell of it, and whom
// each file tells. jit_processes.h has the rules. Of the io thread.

#pragma once

#include <bitset>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "collectors/bpf/sample.h"
#include "collectors/jit/code_map.h"
#include "collectors/jit/code_memory.h"
#include "collectors/jit/follower.h"
#include "collectors/jit/stats.h"
#include "collectors/jit/tsc_clock.h"

namespace profd {

class JitRegistry {
 public:
  using Clock = std::chrono::steady_clock;
  using TakeRows = std::function<void(const ProcessKey& process, std::uint32_t owner,
                                      std::uint32_t region, std::string_view table)>;

  static constexpr std::size_t kMaxProcesses = PROFD_MAX_WATCHED;
  // Of one user but root: a quarter.
  static constexpr std::size_t kMaxProcessesOfUser = kMaxProcesses / 4;
  // Of one process: its own, those it shares, and its nearest ancestors'.
  static constexpr std::size_t kMaxLayers = 16;
  static constexpr std::size_t kMaxBytes = std::size_t{256} << 20;
  static constexpr std::size_t kMaxBytesOfUser = std::size_t{64} << 20;
  // A process is looked at again after the first, then after twice as long each time.
  static constexpr std::chrono::seconds kFirstLook{1};
  static constexpr std::chrono::seconds kLastLook{60};
  static constexpr std::chrono::seconds kLifeInterval{1};

  // `follower` must outlive *this.
  explicit JitRegistry(JitFollower& follower) : follower_(follower) {}

  struct Process {
    JitProcessFacts facts;
    std::uint32_t uid = 0;  // uid_of() when it was first seen
    std::vector<std::shared_ptr<JitSource>> sources;
    std::vector<JitLayer> layers;           // its own first, then by the time of the fork
    std::bitset<kJitRefusalCount> refused;  // counted once each
    std::uint64_t rows_given = 0;           // JitCodeRows::changes() of all layers
    std::set<std::uint32_t> regions;        // that rows were given of
    Clock::time_point next_rows{};
    Clock::duration rows_interval = kLifeInterval;
    bool is_gone = false;
    bool is_looked_for = false;  // now
    Clock::time_point next_look{};
    Clock::duration interval = kFirstLook;
  };

  // What the sampler tells.
  void on_process(const ProcessView& view);
  void on_mapping(const MappingView& mapping);
  void on_unmap(const UnmapView& unmap);

  // What the follower found.
  void on(const JitProcessSeen& seen);
  void on(const JitFileSeen& seen);
  void on(const JitFileGrew& grew);
  void on(const JitFileEnded& ended);

  // Call now and then: looks again, and at who has died.
  void look_who_lives(Clock::time_point now);
  // All that stood in the files at that ticket is read: who died before will tell no more.
  void end_dead(std::uint64_t read_ticket);
  // The rows of a process whose rows changed since they were given last.
  void give_rows(const TakeRows& take_rows, Clock::time_point now);

  // Whom to have told where processes run code of which something is known: at once, and at each
  // watch_memory().
  void send_code_memory_to(JitCodeMemory::Watch watch) { watch_ = std::move(watch); }
  void watch_memory();

  // As the sampler told; JitFollower::kNobody where it did not.
  [[nodiscard]] std::uint32_t uid_of(const ProcessKey& key) const;
  [[nodiscard]] const Process* find(const ProcessKey& key) const;
  [[nodiscard]] std::shared_ptr<const JitNumberedSource> source(std::uint16_t number) const;
  void forget_unless(const std::function<bool(const ProcessKey&)>& needed);
  void add_to(JitStats& stats) const;

 private:
  struct KeyHash {
    using is_avalanching = void;
    std::size_t operator()(const ProcessKey& key) const noexcept {
      std::uint64_t hash =
          (key.start_ns ^ std::uint64_t{key.tgid} << 32 ^ key.exec_id) * 0x9e3779b97f4a7c15ULL;
      hash ^= hash >> 32;
      return static_cast<std::size_t>(hash * 0x9e3779b97f4a7c15ULL);
    }
  };
  using Processes = boost::unordered_flat_map<ProcessKey, std::unique_ptr<Process>, KeyHash>;
  struct Dead {
    std::uint64_t ticket = 0;
    std::vector<ProcessKey> processes;
  };

  [[nodiscard]] JitCodeMemory::Need need_of(const ProcessKey& key) const;
  [[nodiscard]] std::optional<JitRefusal> refusal_of(std::uint32_t uid) const;
  void look(const ProcessKey& key, Process& process);
  void look_again(Clock::time_point now);
  void attach(const ProcessKey& key, Process& process, const std::shared_ptr<const JitFile>& file,
              bool is_shared);
  void link(const ProcessKey& key, Process& process, JitSource& source);
  void inherit(const ProcessKey& key, Process& process);
  static void add_layer(Process& process, JitLayer layer);
  std::shared_ptr<JitSource> source_of(const std::shared_ptr<const JitFile>& file);
  std::shared_ptr<JitCodeMap> make_space(const JitFile& file);
  void add_layer_of(Process& process, JitSource& source, std::uint32_t place,
                    std::uint64_t until_ns);
  std::shared_ptr<JitCodeMap> space_of(JitSource& source, std::uint32_t place);
  static void give_rows_of(const ProcessKey& key, Process& process, const TakeRows& take_rows);
  void count_damage(const JitFileGrew& grew);
  void weigh(JitSource& source);
  [[nodiscard]] std::size_t bytes_of(std::optional<std::uint32_t> owner) const;
  void refuse(JitRefusal reason) { ++stats_.refused[static_cast<std::size_t>(reason)]; }

  JitFollower& follower_;
  TscClock tsc_;
  Processes processes_;
  JitCodeMemory::Watch watch_ = [](const ProcessKey&, std::span<const AddressRange>) {};
  JitCodeMemory memory_;                               // of processes_
  std::map<std::uint32_t, std::size_t> processes_of_;  // by uid
  std::set<ProcessKey> keys_;  // of them, in order: a parent is known by its tgid
  boost::unordered_flat_map<ProcessKey, std::uint32_t, KeyHash> uids_;
  std::map<JitFileId, std::shared_ptr<JitSource>> files_;
  std::map<std::uint16_t, std::weak_ptr<const JitNumberedSource>> sources_;
  std::vector<std::weak_ptr<JitCodeMap>> spaces_;
  std::vector<Dead> dead_;
  std::uint16_t last_source_ = 0;
  std::uint32_t last_space_ = 0;
  Clock::time_point looked_who_lives_{};
  Clock::time_point next_rows_{};
  JitStats stats_;
};

}  // namespace profd
