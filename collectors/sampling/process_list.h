// All processes of the host at one time, with their children; and the one list that all sessions
// that start at a time share.

#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <vector>

#include "bpf/profd_abi.h"
#include "collectors/bpf/programs.h"
#include "formats/base/result.h"

namespace profd {

// Immutable.
class ProcessList {
 public:
  explicit ProcessList(const std::vector<profd_task>& tasks);

  // Whether the process, and not a later one with its tgid, is in the list.
  [[nodiscard]] bool contains(const profd_task& process) const;

  // By tgid. A process that is older than `parent`, but has it as its parent, is the child of an
  // earlier process with that tgid: the list is not of one moment. Children of children, and so on,
  // never lead back to `parent`.
  [[nodiscard]] std::vector<profd_task> children_of(const profd_task& parent) const;

 private:
  std::vector<profd_task> by_tgid_;
  std::vector<profd_task> by_parent_;
};

// Lists the processes on the thread of KernelCalls. Owned by the io thread.
class ProcessLister {
 public:
  // `programs` must outlive the lister.
  explicit ProcessLister(const Programs& programs) : programs_(&programs) {}

  // Asks for a list that begins after this call, and returns its number. One list serves all that
  // asked before it began.
  std::uint64_t request();

  // The list of that number, or a later one; null while there is none.
  Result<std::shared_ptr<const ProcessList>> find(std::uint64_t number);

  // Frees the last list. To be called while nobody waits for one.
  void forget() { last_ = std::shared_ptr<const ProcessList>(); }

 private:
  using Listed = Result<std::shared_ptr<const ProcessList>>;

  void begin();
  static Listed list(const Programs& programs);

  const Programs* programs_;
  std::uint64_t wanted_ = 0;
  std::uint64_t begun_ = 0;
  std::uint64_t ended_ = 0;
  std::future<Listed> listing_;
  Listed last_{std::shared_ptr<const ProcessList>()};
};

}  // namespace profd
