#include "collectors/unwinding/table_loader.h"

#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <future>
#include <utility>

#include "collectors/files/debug_files.h"
#include "collectors/host/idle_thread.h"
#include "collectors/parser/parser.h"
#include "collectors/unwinding/table_cache.h"

namespace profd {
namespace {

TableRefusal refusal_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUnsupported:
      return TableRefusal::kUnsupported;
    case ErrorCode::kTooLarge:
      return TableRefusal::kTooLarge;
    case ErrorCode::kTimeout:
    case ErrorCode::kBusy:
      return TableRefusal::kTimeout;
    case ErrorCode::kUnavailable:
      return TableRefusal::kParserDied;
    default:
      return TableRefusal::kMalformed;
  }
}

bool same_bytes(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

std::string hex_words(std::span<const std::uint64_t> words) {
  return to_hex({reinterpret_cast<const char*>(words.data()), words.size_bytes()});
}

// The owner is part of the name: an owner can change a file between the digest and the table, and
// must not give files of others a false table.
std::string name_of_content(const struct stat& status, const UnwindSource& source, int debug_fd) {
  std::string name = std::to_string(status.st_uid) + "-" + to_hex(source.build_id) + "-" +
                     hex_words(source.digest);
  struct stat debug {};
  if (debug_fd >= 0 && ::fstat(debug_fd, &debug) == 0) {
    const std::uint64_t words[] = {debug.st_ino, static_cast<std::uint64_t>(debug.st_size),
                                   static_cast<std::uint64_t>(debug.st_mtim.tv_sec)};
    name += "-" + hex_words(words);
  }
  return name;
}

// `request` is without a table.
LoadResult make_jit_table(LoadResult request) {
  auto table = std::make_unique<LoadedTable>();
  auto bytes = request.encode();
  if (!bytes) {
    request.refusal = refusal_of(bytes.error().code);
    return request;
  }
  table->bytes = std::move(*bytes);
  auto view = read_unwind_table(table->bytes);
  if (!view) {
    request.refusal = refusal_of(view.error().code);
    return request;
  }
  table->view = std::move(*view);
  request.table = std::move(table);
  return request;
}

}  // namespace

// What only the loading thread uses.
class TableLoader::Work {
 public:
  static Result<std::unique_ptr<Work>> open(const TableLoaderOptions& options);
  LoadResult load(const MappedFile& file);
  [[nodiscard]] std::uint64_t parser_restarts() const { return parser_->restarts(); }

 private:
  Work(TableCache cache, std::unique_ptr<Parser> parser, std::string debug_root)
      : cache_(std::move(cache)), parser_(std::move(parser)), debug_root_(std::move(debug_root)) {}
  Result<LoadResult> try_load(const MappedFile& file);
  FoundRuntime find_runtime(const MappedFile& file);

  TableCache cache_;
  std::unique_ptr<Parser> parser_;
  std::string debug_root_;
};

Result<std::unique_ptr<TableLoader::Work>> TableLoader::Work::open(
    const TableLoaderOptions& options) {
  auto cache = TableCache::open(options.cache_directory);
  if (!cache) return cache.error();
  auto parser = Parser::start();
  if (!parser) return parser.error();
  return std::unique_ptr<Work>(new Work(std::move(*cache), std::move(*parser), options.debug_root));
}

LoadResult TableLoader::Work::load(const MappedFile& file) {
  auto loaded = try_load(file);
  // The parser may have died for another reason, such as lack of memory.
  if (!loaded && loaded.error().code == ErrorCode::kUnavailable) loaded = try_load(file);
  LoadResult result{.file = file.key, .content = {}, .table = {}};
  if (loaded) {
    result = std::move(*loaded);
  } else {
    result.refusal = refusal_of(loaded.error().code);
  }
  // Not once more where the file system does not answer, or the file kills the parser. Else also
  // without a table: frame pointers may lead through the loop of an interpreter.
  const bool can_be_read = result.table || (result.refusal != TableRefusal::kTimeout &&
                                            result.refusal != TableRefusal::kParserDied &&
                                            result.refusal != TableRefusal::kUnsupported);
  if (can_be_read) result.runtime = find_runtime(file);
  return result;
}

// A file that is no ELF file, or of another machine, has no interpreter.
FoundRuntime TableLoader::Work::find_runtime(const MappedFile& file) {
  const auto found = parser_->find_runtime(file.fd.get());
  if (found) return *found;
  switch (found.error().code) {
    case ErrorCode::kMalformed:
    case ErrorCode::kUnsupported:
    case ErrorCode::kTooLarge:
      return {};
    default:
      return {.verdict = RuntimeVerdict::kMalformed};
  }
}

Result<LoadResult> TableLoader::Work::try_load(const MappedFile& file) {
  LoadResult result{.file = file.key, .content = {}, .table = {}};
  const int fd = file.fd.get();
  struct stat before {};
  struct stat after {};
  if (::fstat(fd, &before) != 0) return fail_errno("could not stat " + file.path);
  const auto source = parser_->read_unwind_source(fd, cache_.key());
  if (!source) return source.error();
  UniqueFd debug;
  if (!source->has_eh_frame && !source->has_debug_frame) {
    debug = open_debug_file(*source, file.path, debug_root_);
  }
  result.content = name_of_content(before, *source, debug.get());
  auto table = std::make_unique<LoadedTable>();
  auto cached = cache_.find(result.content);
  if (cached) table->bytes = std::move(*cached);
  auto view = read_unwind_table(table->bytes);
  if (!view) {
    auto made = parser_->make_unwind_table(fd, debug.get());
    if (!made) return made.error();
    table->bytes = std::move(*made);
    view = read_unwind_table(table->bytes);
    if (!view) return view.error();
    if (::fstat(fd, &after) != 0 || !same_bytes(before, after)) {
      result.refusal = TableRefusal::kChanged;
      return result;
    }
    cache_.store(result.content, table->bytes);
  }
  table->view = std::move(*view);
  result.table = std::move(table);
  return result;
}

Result<std::unique_ptr<TableLoader>> TableLoader::start(const TableLoaderOptions& options) {
  std::unique_ptr<TableLoader> loader(new TableLoader(options.owners));
  loader->wake_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!loader->wake_.valid()) return fail_errno("could not create an eventfd");
  // The kernel kills the parser when the thread that started it ends, so this thread starts it.
  std::promise<Result<void>> started;
  std::future<Result<void>> outcome = started.get_future();
  loader->thread_ =
      std::jthread([&options, &started, self = loader.get()](const std::stop_token& stop) {
        ::prctl(PR_SET_NAME, "table-loader");
        auto work = Work::open(options);
        const bool ready = work.has_value();
        started.set_value(ready ? Result<void>() : Result<void>(work.error()));
        if (ready) self->run(stop, **work);
      });
  if (auto ready = outcome.get(); !ready) return ready.error();
  return loader;
}

TableLoader::~TableLoader() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void TableLoader::run(const std::stop_token& stop, Work& work) {
  for (auto queued = next(stop); queued; queued = next(stop)) {
    LoadResult result = load_in_share(work, *queued);
    queued.reset();  // the thread may wait for long, and keeps no file meanwhile
    parser_restarts_ = work.parser_restarts();
    {
      const std::lock_guard lock(mutex_);
      ready_.push_back(std::move(result));
    }
    ::eventfd_write(wake_.get(), 1);
  }
}

LoadResult TableLoader::load_in_share(Work& work, Queued& queued) {
  const auto begin = std::chrono::steady_clock::now();
  forget_some_time(begin);
  Used& used = time_of_user_[queued.user];
  if (!queued.file) {
    LoadResult result = make_jit_table(std::move(queued.jit_code));
    used.all += std::chrono::steady_clock::now() - begin;
    return result;
  }
  const MappedFile& file = *queued.file;
  if (queued.user != 0 && used.by_files >= kMaxTime) {
    return {.file = file.key, .content = {}, .table = {}, .refusal = TableRefusal::kOverShare};
  }
  LoadResult result = work.load(file);
  const auto took = std::chrono::steady_clock::now() - begin;
  used.all += took;
  used.by_files += took;
  return result;
}

void TableLoader::forget_some_time(std::chrono::steady_clock::time_point now) {
  if (now - forgotten_at_ < kForgetInterval) return;
  forgotten_at_ = now;
  for (auto& [user, used] : time_of_user_) {
    used.all /= 2;
    used.by_files /= 2;
  }
  std::erase_if(time_of_user_, [](const auto& entry) { return entry.second.all.count() == 0; });
}

// The first file of root, otherwise the first of the user who has used the least time.
TableLoader::Queue::iterator TableLoader::fairest(Queue& queue) {
  return std::ranges::min_element(queue, {}, [this](const Queued& queued) {
    const bool is_users = queued.user != 0;
    const auto known = is_users ? time_of_user_.find(queued.user) : time_of_user_.end();
    const auto time =
        known == time_of_user_.end() ? std::chrono::nanoseconds::zero() : known->second.all;
    return std::pair(is_users, time);
  });
}

std::optional<TableLoader::Queued> TableLoader::next(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const auto has_work = [this] {
    return ready_.size() < kMaxReady && !(urgent_.empty() && background_.empty());
  };
  if (!changed_.wait_for(lock, stop, kIdleAfter, has_work)) {
    lock.unlock();
    return_memory_of_thread();
    lock.lock();
    changed_.wait(lock, stop, has_work);
  }
  if (stop.stop_requested()) return std::nullopt;
  Queue& queue = urgent_.empty() ? background_ : urgent_;
  const auto chosen = fairest(queue);
  Queued queued = std::move(*chosen);
  queue.erase(chosen);
  return queued;
}

bool TableLoader::has_room(const Queue& queue, std::uint32_t user) {
  if (queue.size() >= kMaxQueued) return false;
  if (user == 0) return true;
  const auto of_root = std::ranges::count(queue, 0U, &Queued::user);
  const auto of_user = std::ranges::count(queue, user, &Queued::user);
  return queue.size() - static_cast<std::size_t>(of_root) < kMaxQueuedOfUsers &&
         static_cast<std::size_t>(of_user) < kMaxQueuedOfUser;
}

bool TableLoader::request(std::shared_ptr<const MappedFile> file, Urgency urgency) {
  const std::uint32_t user = owners_.owner_of(file->owner);
  {
    const std::lock_guard lock(mutex_);
    Queue& queue = urgency == Urgency::kStacksWait ? urgent_ : background_;
    if (!has_room(queue, user)) return false;
    queue.push_back({.file = std::move(file), .user = user});
  }
  changed_.notify_one();
  return true;
}

void TableLoader::request_jit_code(const FileKey& area, std::uint32_t owner, std::string content,
                                   EncodeTable encode) {
  Queued queued{
      .user = owners_.owner_of(owner),
      .jit_code = {
          .file = area, .content = std::move(content), .table = {}, .encode = std::move(encode)}};
  {
    const std::lock_guard lock(mutex_);
    urgent_.push_back(std::move(queued));
  }
  changed_.notify_one();
}

void TableLoader::prioritize(const FileKey& file) {
  const std::lock_guard lock(mutex_);
  const auto queued =
      std::ranges::find(background_, file, [](const Queued& entry) { return entry.file->key; });
  if (queued == background_.end() || !has_room(urgent_, queued->user)) return;
  urgent_.push_back(std::move(*queued));
  background_.erase(queued);
}

std::vector<LoadResult> TableLoader::take() {
  eventfd_t count = 0;
  ::eventfd_read(wake_.get(), &count);
  std::vector<LoadResult> taken;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(ready_);
  }
  if (taken.size() >= kMaxReady) changed_.notify_one();  // the thread waits for room
  return taken;
}

}  // namespace profd
