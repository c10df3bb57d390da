#include "collectors/unwinding/table_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/crc.hpp>

#include "formats/base/whole_file.h"
#include "formats/elf/elf_tables.h"

namespace profd {
namespace {

constexpr const char* kKeyName = "key";
constexpr const char* kTemporaryName = "new";
constexpr std::string_view kSuffix = ".rows";
constexpr std::uint64_t kMaxTableBytes = std::uint64_t{64} << 20;

struct Header {
  std::array<char, 8> magic{'p', 'r', 'o', 'f', 'd', 'U', 'C', '1'};
  std::uint64_t maker = 0;
  std::uint64_t bytes = 0;
  std::uint32_t checksum = 0;
  std::uint32_t reserved = 0;
};

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::uint32_t checksum_of(const std::string& bytes) {
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

// Writes a file so that it exists either completely or not at all.
bool replace_file(int directory, const std::string& name, std::string_view header,
                  std::string_view bytes) {
  ::unlinkat(directory, kTemporaryName, 0);
  const UniqueFd fd(::openat(directory, kTemporaryName,
                             O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                             S_IRUSR | S_IWUSR));
  const bool done = fd.valid() && write_all(fd.get(), header) && write_all(fd.get(), bytes) &&
                    ::renameat(directory, kTemporaryName, directory, name.c_str()) == 0;
  if (!done) ::unlinkat(directory, kTemporaryName, 0);
  return done;
}

// Differs between builds of profd, whose rows may differ.
std::uint64_t own_build() {
  struct stat status {};
  if (::stat("/proc/self/exe", &status) != 0) return 0;
  return static_cast<std::uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(status.st_mtim.tv_nsec) +
         static_cast<std::uint64_t>(status.st_size);
}

Result<DigestKey> make_key() {
  DigestKey key;
  if (::getrandom(key.words, sizeof key.words, 0) != sizeof key.words) {
    return fail_errno("could not make a random key");
  }
  return key;
}

Result<DigestKey> read_or_make_key(int directory) {
  DigestKey key;
  const UniqueFd fd(::openat(directory, kKeyName, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (fd.valid() && elf::read_at(fd.get(), 0, key.words, sizeof key.words)) return key;
  auto made = make_key();
  if (!made) return made;
  if (!replace_file(directory, kKeyName, bytes_of(*made), {})) {
    return fail_errno("could not store the key of the unwind tables");
  }
  return made;
}

struct Entry {
  std::string name;
  std::uint64_t bytes;
  timespec used;
  uid_t user = 0;  // who pays for it

  // The owner of the file whose table it is: what the name begins with. Root for another name,
  // which profd has not made.
  [[nodiscard]] uid_t uid() const {
    uid_t uid = 0;
    std::from_chars(name.data(), name.data() + name.size(), uid);
    return uid;
  }
};

std::vector<Entry> entries_of(int directory) {
  std::vector<Entry> entries;
  UniqueFd copy(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!copy.valid()) return entries;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::fdopendir(copy.release()), &::closedir);
  if (!listing) return entries;
  while (const dirent* entry = ::readdir(listing.get())) {
    struct stat status {};
    if (!std::string_view(entry->d_name).ends_with(kSuffix)) continue;
    if (::fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    entries.push_back({entry->d_name, static_cast<std::uint64_t>(status.st_size), status.st_mtim});
  }
  return entries;
}

void sort_oldest_first(std::vector<Entry>& entries) {
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    return a.used.tv_sec != b.used.tv_sec ? a.used.tv_sec < b.used.tv_sec
                                          : a.used.tv_nsec < b.used.tv_nsec;
  });
}

}  // namespace

void TableCache::Use::add(std::uint64_t bytes_of_file) {
  bytes += bytes_of_file;
  ++files;
}

void TableCache::Use::remove(std::uint64_t bytes_of_file) {
  bytes -= bytes_of_file;
  --files;
}

Result<TableCache> TableCache::open(const std::string& directory, std::uint64_t max_bytes,
                                    std::size_t max_files, UidOwners owners) {
  TableCache cache;
  cache.owners_ = std::move(owners);
  if (directory.empty()) {
    const auto key = make_key();
    if (!key) return key.error();
    cache.key_ = *key;
    return cache;
  }
  if (::mkdir(directory.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return fail_errno("could not create " + directory);
  }
  cache.directory_.reset(
      ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!cache.directory_.valid()) return fail_errno("could not open " + directory);
  const auto key = read_or_make_key(cache.directory_.get());
  if (!key) return key.error();
  cache.key_ = *key;
  cache.max_ = {.bytes = max_bytes, .files = max_files};
  cache.maker_ = own_build();
  for (const Entry& entry : entries_of(cache.directory_.get())) cache.use_.add(entry.bytes);
  return cache;
}

std::optional<std::string> TableCache::find(const std::string& content) const {
  if (!directory_.valid()) return std::nullopt;
  const std::string name = content + std::string(kSuffix);
  const UniqueFd fd(::openat(directory_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  Header header;
  const Header expected{.maker = maker_};
  if (!fd.valid() || !elf::read_at(fd.get(), 0, &header, sizeof header) ||
      header.magic != expected.magic || header.maker != maker_ || header.bytes > kMaxTableBytes) {
    return std::nullopt;
  }
  std::string table(header.bytes, '\0');
  if (!elf::read_at(fd.get(), sizeof header, table.data(), table.size()) ||
      checksum_of(table) != header.checksum) {
    return std::nullopt;
  }
  ::futimens(fd.get(), nullptr);  // the time of use
  return table;
}

void TableCache::store(const std::string& content, const std::string& table) {
  const std::uint64_t max_bytes = this->max_bytes();
  if (!directory_.valid() || table.size() > std::min(kMaxTableBytes, max_bytes)) return;
  const Header header{.maker = maker_, .bytes = table.size(), .checksum = checksum_of(table)};
  if (!replace_file(directory_.get(), content + std::string(kSuffix), bytes_of(header), table)) {
    return;
  }
  // A replaced file counts twice until remove_oldest() counts again.
  use_.add(sizeof header + table.size());
  const Use limit{.bytes = max_bytes, .files = max_.files};
  if (use_.is_over(limit)) remove_oldest(limit);
}

std::uint64_t TableCache::max_bytes() const {
  constexpr std::uint64_t kPart = 4;
  struct statvfs disk {};
  if (!directory_.valid() || ::fstatvfs(directory_.get(), &disk) != 0) return max_.bytes;
  const std::uint64_t free = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  return std::min(max_.bytes, (use_.bytes + free) / kPart);
}

// Removes down to 9/10 of the limits, so that the directory isn't read for each new file.
void TableCache::remove_oldest(const Use& limit) {
  std::vector<Entry> entries = entries_of(directory_.get());
  sort_oldest_first(entries);
  use_ = {};
  Use of_users;
  std::map<uid_t, Use> by_user;
  for (Entry& entry : entries) {
    entry.user = owners_.owner_of(entry.uid());
    use_.add(entry.bytes);
    by_user[entry.user].add(entry.bytes);
    if (entry.user != 0) of_users.add(entry.bytes);
  }
  // std::erase_if() asks in order.
  const auto remove_if = [&](const auto& is_too_much) {
    std::erase_if(entries, [&](const Entry& entry) {
      if (!is_too_much(entry.user) || ::unlinkat(directory_.get(), entry.name.c_str(), 0) != 0) {
        return false;
      }
      use_.remove(entry.bytes);
      by_user[entry.user].remove(entry.bytes);
      if (entry.user != 0) of_users.remove(entry.bytes);
      return true;
    });
  };
  const Use kept{.bytes = limit.bytes / 10 * 9, .files = limit.files / 10 * 9};
  remove_if([&](uid_t user) { return user != 0 && by_user[user].is_over(kept.part(8)); });
  remove_if([&](uid_t user) { return user != 0 && of_users.is_over(kept.part(2)); });
  remove_if([&](uid_t) { return use_.is_over(kept); });
}

}  // namespace profd
