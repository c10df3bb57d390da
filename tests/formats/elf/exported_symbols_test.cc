// Symbols by name: the dynamic loader is the oracle.

#include "formats/elf/exported_symbols.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "formats/base/unique_fd.h"
#include "tests/formats/elf/hostile_elf.h"

namespace profd::test {
namespace {

// The libc of this process, as a file.
struct LoadedLibc {
  void* handle = ::dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  Dl_info info{};
  UniqueFd fd;

  LoadedLibc() {
    if (handle == nullptr || ::dladdr(::dlsym(handle, "getenv"), &info) == 0) return;
    fd.reset(::open(info.dli_fname, O_RDONLY | O_CLOEXEC));
  }
  LoadedLibc(const LoadedLibc&) = delete;
  LoadedLibc& operator=(const LoadedLibc&) = delete;
  ~LoadedLibc() {
    if (handle != nullptr) ::dlclose(handle);
  }

  [[nodiscard]] std::uint64_t vaddr_of(const char* name) const {
    const auto* const address = static_cast<const char*>(::dlsym(handle, name));
    return static_cast<std::uint64_t>(address - static_cast<const char*>(info.dli_fbase));
  }
};

// Fails if the Bloom filter, the bucket or the chain is computed in another way.
TEST(ExportedSymbolsTest, AreThoseThatTheDynamicLoaderFinds) {
  const LoadedLibc libc;
  ASSERT_TRUE(libc.fd.valid());
  const auto file = CodeFile::open(libc.fd.get());
  ASSERT_TRUE(file);
  const ExportedSymbols symbols(*file);
  for (const char* const name : {"getenv", "qsort", "fflush", "getpid", "environ"}) {
    const auto symbol = symbols.find(name);
    ASSERT_TRUE(symbol) << name;
    EXPECT_EQ(symbol->st_value, libc.vaddr_of(name)) << name;
  }
  for (const char* const name : {"", "getenv_", "geten", "_PyRuntime", "no such symbol"}) {
    EXPECT_FALSE(symbols.find(name)) << name;
  }
}

TEST(ExportedSymbolsTest, NeededLibrariesAreFoundByPrefix) {
  const LoadedLibc libc;
  ASSERT_TRUE(libc.fd.valid());
  const auto file = CodeFile::open(libc.fd.get());
  ASSERT_TRUE(file);
  const ExportedSymbols symbols(*file);
  EXPECT_TRUE(symbols.needs_any());
  EXPECT_TRUE(symbols.needs("ld-linux-x86-64.so"));
  EXPECT_FALSE(symbols.needs("ld-linux-x86-64.so.2.2"));
  EXPECT_FALSE(symbols.needs("linux-x86-64"));
}

TEST(ExportedSymbolsTest, TheSymbolTableIsReadByName) {
  const UniqueFd fd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const auto file = CodeFile::open(fd.get());
  ASSERT_TRUE(file);
  constexpr std::array<std::string_view, 3> kNames = {"mai", "main", "no such symbol"};
  const auto found = find_in_symtab(*file, kNames);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_FALSE(found[0]);  // only the start of a name
  ASSERT_TRUE(found[1]);
  EXPECT_TRUE(file->code().segment_of(found[1]->st_value) != nullptr);
  EXPECT_FALSE(found[2]);
}

TEST(ExportedSymbolsTest, AFileWithoutADynamicSegmentExportsNothing) {
  const std::string bytes = HostileElf().bytes();
  const UniqueFd fd(::memfd_create("elf", MFD_CLOEXEC));
  ASSERT_EQ(::write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  const auto file = CodeFile::open(fd.get());
  ASSERT_TRUE(file);
  const ExportedSymbols symbols(*file);
  EXPECT_FALSE(symbols.find("getenv"));
  EXPECT_FALSE(symbols.target_of_got(HostileElf::kCode + 0x1000));
  EXPECT_FALSE(symbols.is_tls_module(HostileElf::kCode));
  EXPECT_FALSE(symbols.needs("l"));
  EXPECT_FALSE(symbols.needs_any());
}

}  // namespace
}  // namespace profd::test
