#include "ctl/ship/windows/unpacked_window.h"

#include <optional>
#include <utility>

#include "ctl/ship/windows/stack_depth.h"
#include "formats/base/gzip.h"
#include "formats/profile/pprof_merge.h"
#include "formats/profile/pprof_reader.h"
#include "formats/profile/pprof_tables.h"

namespace profd {

std::size_t WindowMemory::used() const {
  const std::scoped_lock lock(mutex_);
  return used_;
}

struct UnpackedWindow::Contents {
  std::string bytes;
  PprofTables tables;               // borrow the bytes
  std::optional<PprofParts> parts;  // borrow the tables
};

// The window is in use while this lives.
class UnpackedWindow::Use {
 public:
  explicit Use(UnpackedWindow& window) : window_(window), begun_(window.acquire()) {}
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() { window_.release(); }

  [[nodiscard]] bool has_begun() const { return begun_.has_value(); }
  [[nodiscard]] PprofRefusal error() const { return begun_.error(); }

 private:
  UnpackedWindow& window_;
  PprofResult<void> begun_;
};

UnpackedWindow::UnpackedWindow(WindowMemory& memory, std::size_t max_depth)
    : memory_(memory), max_depth_(max_depth) {}

UnpackedWindow::~UnpackedWindow() { close(); }

PprofResult<WindowTime> UnpackedWindow::open(std::string file) {
  close();
  size_ = is_gzip(file) ? stated_gzip_size(file) : file.size();
  if (size_ > WindowMemory::kMaxBytes) return PprofRefusal::kTooLarge;
  file_ = std::move(file);
  const Use in_use(*this);
  if (!in_use.has_begun()) {
    close();
    return in_use.error();
  }
  const PprofTables& tables = contents_->tables;
  using Time = std::chrono::sys_time<std::chrono::nanoseconds>;
  return WindowTime{.start = Time(std::chrono::nanoseconds(tables.time_ns)),
                    .length = std::chrono::nanoseconds(tables.duration_ns)};
}

void UnpackedWindow::close() {
  {
    const std::scoped_lock lock(memory_.mutex_);
    if (contents_) drop_contents();
  }
  memory_.has_changed_.notify_all();
  std::string().swap(file_);
}

PprofResult<WindowParts> UnpackedWindow::split(const SplitOptions& options) {
  const Use in_use(*this);
  if (!in_use.has_begun()) return in_use.error();
  return split_window(contents_->tables, options);
}

PprofResult<PprofProfile> UnpackedWindow::profile_of(const ServicePart& part,
                                                     ThreadLabels threads) {
  const Use in_use(*this);
  if (!in_use.has_begun()) return in_use.error();
  return profile_of_part(*contents_->parts, part, threads);
}

PprofResult<void> UnpackedWindow::acquire() {
  {
    const std::scoped_lock lock(memory_.mutex_);
    memory_.idle_.remove(this);
    if (contents_) return {};
  }
  take_memory();
  auto unpacked = unpack();
  if (unpacked) {
    contents_ = std::move(*unpacked);
    return {};
  }
  {
    const std::scoped_lock lock(memory_.mutex_);
    drop_contents();
  }
  memory_.has_changed_.notify_all();
  return unpacked.error();
}

void UnpackedWindow::release() {
  {
    const std::scoped_lock lock(memory_.mutex_);
    if (!contents_) return;
    memory_.idle_.push_back(this);
  }
  memory_.has_changed_.notify_all();
}

void UnpackedWindow::take_memory() {
  std::unique_lock lock(memory_.mutex_);
  while (!memory_.has_room(memory_.used_, size_)) {
    // Where the windows in use leave no room, it would only have idle ones unpacked again.
    if (memory_.has_room(bytes_in_use(), size_)) {
      memory_.idle_.front()->drop_contents();
    } else {
      memory_.has_changed_.wait(lock);
    }
  }
  memory_.used_ += size_;
}

std::size_t UnpackedWindow::bytes_in_use() const {
  std::size_t bytes = memory_.used_;
  for (const UnpackedWindow* const idle : memory_.idle_) bytes -= idle->size_;
  return bytes;
}

PprofResult<std::unique_ptr<UnpackedWindow::Contents>> UnpackedWindow::unpack() const {
  auto contents = std::make_unique<Contents>();
  auto bytes = unpack_pprof(file_, size_);
  if (!bytes) {
    // More than it states: a trailer that is malformed.
    return bytes.error() == PprofRefusal::kTooLarge ? PprofRefusal::kBadGzip : bytes.error();
  }
  contents->bytes = std::move(*bytes);
  auto tables = read_pprof_tables(contents->bytes);
  if (!tables) return tables.error();
  contents->tables = std::move(*tables);
  limit_depth(contents->tables, max_depth_);
  // Engines take it for a label by which samples differ, so equal stacks would be many series.
  contents->tables.longest.clear();
  contents->parts.emplace(contents->tables);
  return contents;
}

void UnpackedWindow::drop_contents() {
  memory_.idle_.remove(this);
  memory_.used_ -= size_;
  contents_.reset();
}

}  // namespace profd
