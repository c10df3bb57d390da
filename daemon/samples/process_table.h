// The sampled processes: their names, users and mappings.
//
// The kernel side sends the record of a process or mapping once per CPU, before that CPU's samples.
// Samples of another CPU may be read first, so images are looked up only when a session ends. An
// image stays as long as its process may be sampled again or a running session has samples of it.
// The io thread owns the table. share() gives an image to another thread without a copy: the images
// of a large host have hundreds of thousands of mappings, and a dump or window takes all of them in
// one turn of the io thread. An image that was shared never changes again. The first record that
// would change it replaces it in the table with a copy, whether or not the other thread still has
// it, so the threads need no agreement.
//
// Processes choose how many programs they run and how many mappings they make, and these stay as
// long as their process. So they are limited by user, in units of about 100 bytes. What is over a
// limit is dropped, and its frames stay plain addresses.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "collectors/bpf/sample.h"
#include "collectors/files/mapped_files.h"
#include "collectors/host/uid_owners.h"
#include "collectors/host/user_refusals.h"

namespace profd {

struct ProcessKeyHash {
  using is_avalanching = void;
  std::size_t operator()(const ProcessKey& key) const noexcept;
};

// A mapping of a process, from its first record.
struct ProcessMapping {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t file_offset = 0;  // bytes
  std::uint64_t time_ns = 0;      // of the record
  profd_mapping_kind kind = PROFD_MAPPING_ANONYMOUS;
  FileKey file_key{};
  std::shared_ptr<const MappedFile> file{};  // null: no file, or it was never opened
  // By which the process knows the file, where that is not the path in `file`: in another mount
  // namespace, and by another hard link. "unnamed-file" where it is not known.
  std::shared_ptr<const std::string> own_path{};
};

// Of the file of the mapping, as the process knows it. Empty without a file.
[[nodiscard]] std::string_view path_of(const ProcessMapping& mapping);

// Whether JIT code may lie in the mapping (collectors/jit/code_memory.h).
[[nodiscard]] bool may_be_jit_code(const ProcessMapping& mapping);

// One program run by one process: an exec or a reused pid makes another image.
struct ProcessImage {
  std::string comm;    // of the latest record
  std::string cgroup;  // path below the cgroup v2 mount; empty: unknown
  std::uint32_t uid = 0;
  bool identified = false;  // its process record has arrived
  bool kernel_thread = false;
  FileKey executable;
  // By id. Most images have less than ten: the first two of a hash table would take 3 KiB.
  std::map<std::uint64_t, ProcessMapping> mappings;
};

// The images that the table has forgotten. To destroy thousands of them, and to return their memory
// to the system, takes many milliseconds, so the io thread gives them to a worker for that. Any
// thread.
class ForgottenImages {
 public:
  [[nodiscard]] bool empty() const { return images_.empty(); }

  void add(std::shared_ptr<const ProcessImage> image) { images_.push_back(std::move(image)); }

  // Destroys the images that no snapshot has.
  void destroy() noexcept;

 private:
  std::vector<std::shared_ptr<const ProcessImage>> images_;
};

class ProcessTable {
 public:
  // What is over a limit counts as kDroppedMappings in `refusals`, which must outlive the table.
  // Null: it is not counted by user.
  explicit ProcessTable(UserRefusals* refusals = nullptr, UidOwners owners = UidOwners())
      : refusals_(refusals), owners_(std::move(owners)) {}
  static constexpr std::string_view kDroppedMappings = "mappings_dropped";

  static constexpr std::size_t kMaxMappings = 16'384;  // of an image
  // Units of all images, of those of all users but root, and of those of one such user, with the
  // user's subordinate uids.
  static constexpr std::size_t kMaxUnits = std::size_t{1} << 20;
  static constexpr std::size_t kMaxUnitsOfUsers = kMaxUnits / 2;
  static constexpr std::size_t kMaxUnitsOfUser = kMaxUnits / 8;
  // What an image without mappings takes, and each of its mappings, which takes more with a path of
  // its own.
  static constexpr std::size_t kUnitsOfImage = 8;
  static constexpr std::size_t kUnitsOfMapping = 2;

  void add(const MappingView& mapping, std::shared_ptr<const MappedFile> file);
  void add(const ProcessView& process);

  // Null when no record of the image has arrived. Valid until the next add() or forget_unless().
  [[nodiscard]] const ProcessImage* find(const ProcessKey& key) const;

  // The user who pays for the image, root (0) where it is not known yet.
  [[nodiscard]] std::uint32_t payer_of(const ProcessKey& key) const;

  // The same as find(), as a value for another thread: what the image is now. The same object until
  // a record changes the image.
  [[nodiscard]] std::shared_ptr<const ProcessImage> share(const ProcessKey& key);

  // Removes the images that `needed` is false for and whose process has exited or, since the last
  // call but one, runs another program. Images of running programs stay, since the kernel side does
  // not repeat their records.
  [[nodiscard]] ForgottenImages forget_unless(const std::function<bool(const ProcessKey&)>& needed);

  [[nodiscard]] std::size_t size() const { return images_.size(); }
  [[nodiscard]] std::size_t units() const { return units_; }

  // The number of records over a limit since the last call.
  [[nodiscard]] std::uint64_t take_dropped() { return std::exchange(dropped_, 0); }

 private:
  struct Entry {
    // Unshared images are changed in place.
    ProcessImage& changeable();

    std::shared_ptr<ProcessImage> image = std::make_shared<ProcessImage>();
    bool is_shared = false;
    bool is_replaced = false;        // its process had begun another program
    std::uint64_t comm_time_ns = 0;  // of the latest process record
    std::uint64_t owner = 0;         // who pays for its units
    std::size_t units = 0;
  };

  // Null: it is over a limit.
  Entry* find_or_add(const ProcessKey& key, std::uint64_t owner);
  void count_dropped(const Entry* entry);
  [[nodiscard]] bool has_room(std::uint64_t owner, std::size_t units) const;
  void charge(Entry& entry, std::size_t units);
  void discharge(Entry& entry, std::size_t units);
  void identify(Entry& entry, std::uint32_t uid);
  void mark_replaced_programs();

  UserRefusals* refusals_;
  UidOwners owners_;
  boost::unordered_flat_map<ProcessKey, Entry, ProcessKeyHash> images_;
  boost::unordered_flat_map<std::uint64_t, std::size_t> units_of_owner_;
  std::size_t units_ = 0;
  std::size_t units_of_users_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace profd
