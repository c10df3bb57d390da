// objdump, which knows the PLTs of the linkers, is the oracle.

#include "formats/symbols/plt.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <sstream>
#include <utility>

#include <gtest/gtest.h>

#include "formats/symbols/find_code_names.h"
#include "tests/formats/symbols/built_code.h"

namespace profd {
namespace {

using test::frames_text;
using test::text_at;

// The address of a slot of this name in .plt; 0: there is none.
std::uint64_t plt_slot_of(const std::string& path, const std::string& name) {
  const std::string section = test::output_of("readelf -SW " + path + " | grep ' .plt '");
  const std::uint64_t start =
      std::stoull(section.substr(section.find("PROGBITS") + 8), nullptr, 16);
  for (std::uint64_t slot = start; slot < start + 512; slot += 8) {
    if (text_at(path, slot) == name + " (plt)") return slot;
  }
  return 0;
}

class PltTest : public testing::Test {
 protected:
  static constexpr const char* kLibrary = R"(
    #include <math.h>
    #include <stdlib.h>
    #include <string.h>
    namespace space { int other(const char* text); }
    int (*volatile pointer)(const char*) = &atoi;
    int work(const char* text) {
      void* memory = malloc(strlen(text));
      free(memory);
      return atoi(text) + atoi("1") + space::other(text) + static_cast<int>(sin(text[0]));
    }
  )";

  // The addresses of instructions of the slots that objdump names, with these names.
  static std::vector<std::pair<std::uint64_t, std::string>> objdump_slots(const std::string& path) {
    std::istringstream lines(test::output_of("objdump -d " + path));
    std::vector<std::pair<std::uint64_t, std::string>> slots;
    std::string name;
    for (std::string line; std::getline(lines, line);) {
      const auto open = line.find('<');
      if (line.ends_with("@plt>:") && line[0] == '0') {
        name = line.substr(open + 1, line.size() - open - 3);
      } else if (line.empty()) {
        name.clear();
      } else if (!name.empty()) {
        slots.emplace_back(std::stoull(line, nullptr, 16), name);
      }
    }
    return slots;
  }

  void expect_names_of_objdump(const std::string& path) {
    std::size_t calls_of_sin = 0;
    const auto slots = objdump_slots(path);
    for (const auto& [address, name] : slots) {
      const std::string shown = name == "_ZN5space5otherEPKc@plt" ? "space::other@plt" : name;
      EXPECT_EQ(text_at(path, address), shown + " (plt)") << path << " " << std::hex << address;
      EXPECT_EQ(test::name_of(path, address).frames.at(0).system_name, name);
      calls_of_sin += name == "sin@plt" ? 1 : 0;
    }
    EXPECT_GT(calls_of_sin, 0U) << path;
    EXPECT_GE(slots.size(), 6U) << path;
  }

  test::BuiltCode built_;
};

TEST_F(PltTest, SlotsHaveTheNamesOfObjdump) {
  int number = 0;
  for (const char* options :
       {"-fcf-protection=none -Wl,-z,lazy", "-fcf-protection=none -Wl,-z,now",
        "-fcf-protection=full -Wl,-z,lazy", "-fcf-protection=full -Wl,-z,now",
        "-fcf-protection=full -Wl,-z,lazy,-z,ibtplt", "-fcf-protection=full -Wl,-z,now,-z,ibtplt",
        "-fcf-protection=none -Wl,-z,lazy -fuse-ld=gold",
        "-fcf-protection=none -Wl,-z,now -fuse-ld=gold", "-Wl,-z,lazy,-z,bndplt", "-s"}) {
    const std::string path = built_.build("library" + std::to_string(++number), kLibrary,
                                          std::string("g++ -O1 -fPIC -shared ") + options, "cc");
    SCOPED_TRACE(options);
    expect_names_of_objdump(path);
  }
}

TEST_F(PltTest, TheHeaderOfAPltHasNoName) {
  const std::string path = built_.build(
      "library", kLibrary, "g++ -O1 -fPIC -shared -fcf-protection=none -Wl,-z,lazy", "cc");
  const auto section = test::output_of("readelf -SW " + path + " | grep ' .plt '");
  const auto address = std::stoull(section.substr(section.find("PROGBITS") + 8), nullptr, 16);
  EXPECT_EQ(text_at(path, address), "(gap)");
  EXPECT_EQ(text_at(path, address + 6), "(gap)");
}

// A slot of a static program calls an indirect function of its own: no symbol, but a resolver.
constexpr const char* kIndirect = R"(
  static int one(void) { return 1; }
  static int (*choose(void))(void) { return one; }
  int chosen(void) __attribute__((ifunc("choose")));
  int main(void) { return chosen(); }
)";

TEST_F(PltTest, ASlotOfAnIndirectFunctionHasTheNameOfItsResolver) {
  const std::string path = built_.build("program", kIndirect, "gcc -O1 -static");
  EXPECT_NE(plt_slot_of(path, "chosen@plt"), 0U);
}

// What it takes to read the slot of a PLT comes after what all addresses take.
TEST_F(PltTest, ASlotThatIsNotReadForWantOfBudgetIsNoGap) {
  const std::string shared = built_.build(
      "shared", "int other(void); int work(void) { return other() + 1; }", "gcc -O1 -fPIC -shared");
  const std::string program = built_.build("indirect", kIndirect, "gcc -O1 -static");
  for (const auto& [path, name] : {std::pair(shared, "other@plt"), {program, "chosen@plt"}}) {
    const std::uint64_t slot = plt_slot_of(path, name);
    ASSERT_NE(slot, 0U) << path;
    const UniqueFd fd = test::open_file(path);
    ASSERT_EQ(::fchown(fd.get(), 65534, 65534), 0);
    const auto answer = [&](std::uint64_t address, std::size_t bytes) {
      SymbolBudget budget{.table_bytes = bytes, .time = std::chrono::hours(1)};
      const auto names = find_code_names(fd.get(), -1, std::array{address}, budget);
      return std::pair(frames_text(names->at(0)), bytes - budget.table_bytes);
    };
    constexpr std::size_t kEnough = std::size_t{64} << 20;
    const auto [no_name, bytes_of_others] = answer(~std::uint64_t{0}, kEnough);
    const auto [slot_name, bytes_with_slot] = answer(slot, kEnough);
    EXPECT_EQ(no_name, "(gap)");
    EXPECT_EQ(slot_name, std::string(name) + " (plt)");
    ASSERT_GT(bytes_with_slot, bytes_of_others);
    for (const std::size_t bytes : {bytes_of_others, (bytes_of_others + bytes_with_slot) / 2}) {
      EXPECT_EQ(answer(slot, bytes).first, "(over_budget)") << path << " " << bytes;
    }
  }
}

}  // namespace
}  // namespace profd
