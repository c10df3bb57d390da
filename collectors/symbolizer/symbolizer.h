// The symbolizer: a sandboxed child process that reads DWARF with libdw, and nothing else.
//
// libdw needs more memory and time than the parser has, maps the files, and opens further ones by
// itself, so it has a child of its own: that finds no file by name, and dies where a file is cut
// while it is mapped. The child is started for the first request, ends after a minute without one,
// and is replaced when it faults, answers nonsense, takes too long or keeps too much memory.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectors/sandbox/child.h"
#include "collectors/sandbox/client.h"
#include "collectors/symbolizer/dwarf_frames.h"
#include "formats/base/result.h"

namespace profd {

struct SymbolizerLimits {
  std::chrono::milliseconds cpu_time{2000};       // of one request; see find_frames()
  std::chrono::milliseconds root_cpu_time{5000};  // of one whose files are all root's
  std::chrono::milliseconds wall_time{15000};
  std::uint64_t kept_bytes = std::uint64_t{256} << 20;  // of memory, after a request
  std::chrono::milliseconds idle_time{60000};
};

// Whether root owns all of them.
[[nodiscard]] bool are_of_root(const DwarfFiles& files);

// For one thread: the child is killed when the thread that started it ends.
class Symbolizer {
 public:
  // `spawn` makes another child than kSymbolizerChild.
  explicit Symbolizer(const SymbolizerLimits& limits = {}, sandbox::Spawn spawn = {});
  Symbolizer(const Symbolizer&) = delete;
  Symbolizer& operator=(const Symbolizer&) = delete;

  // find_dwarf_frames() in the child: one answer for each address, in their order, the most
  // important address first. Addresses that were not read when `cpu_time` was spent have that as
  // the loss; the time that is left is never more than that of the limits. A child that takes half
  // a second more for a file of a user is killed. Where the child died or was killed, all addresses
  // have the same loss, which is_of_file(). An error only where no child can be started.
  [[nodiscard]] Result<std::vector<DwarfAddress>> find_frames(
      const DwarfFiles& files, std::span<const std::uint64_t> addresses,
      std::chrono::nanoseconds cpu_time);

  // find_alt_link() in the child. The caller finds the file by it, as the file's owner may have
  // written any path.
  [[nodiscard]] Result<AltLink> find_alt_link(const DwarfFiles& files);

  // Ends the child, for a caller that has no request for a while. The next one starts another.
  void end_child();

  [[nodiscard]] pid_t child() const;                        // -1: none; for tests and status
  [[nodiscard]] std::chrono::nanoseconds cpu_time() const;  // of all requests
  [[nodiscard]] std::uint64_t failures() const { return failures_; }  // children killed or died

 private:
  Result<void> ensure_client();
  void end_large_child();
  [[nodiscard]] std::chrono::milliseconds cpu_limit_of(const DwarfFiles& files) const;
  // `argument` is -1 where there is none. `cpu_time` is what the child is to take at most.
  Result<std::string> call(std::uint32_t operation, const DwarfFiles& files, int argument,
                           std::chrono::nanoseconds cpu_time);
  Result<std::string> call_find_frames(const DwarfFiles& files,
                                       std::span<const std::uint64_t> addresses,
                                       std::chrono::nanoseconds cpu_time);

  SymbolizerLimits limits_;
  sandbox::Spawn spawn_;
  std::unique_ptr<sandbox::Client> client_;
  std::uint64_t failures_ = 0;
};

// For sandbox::run_as_child(). The one for files that users own may have half of the memory.
extern const sandbox::ChildKind kSymbolizerChild;
extern const sandbox::ChildKind kUserSymbolizerChild;

// Starts kUserSymbolizerChild, for Symbolizer's constructor.
[[nodiscard]] sandbox::Spawn user_symbolizer();

}  // namespace profd
