// The verifier accepts the programs, far below its limit of a million instructions.

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iostream>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "collectors/bpf/programs.h"
#include "tests/bpf/switch_object.h"

namespace profd::test {
namespace {

constexpr std::uint32_t kMaxVerifiedInstructions = 300'000;

void expect_few_instructions(int program, const char* name) {
  bpf_prog_info info{};
  std::uint32_t bytes = sizeof(info);
  ASSERT_EQ(bpf_obj_get_info_by_fd(program, &info, &bytes), 0);
  std::cout << name << ": " << info.verified_insns << " instructions verified\n";
  EXPECT_GT(info.verified_insns, 0U);
  EXPECT_LT(info.verified_insns, kMaxVerifiedInstructions);
}

class VerifierTest : public testing::TestWithParam<const char*> {};

TEST_P(VerifierTest, VerifiesInFewInstructions) {
  const auto programs = Programs::load(Programs::built_in(), 4096);
  ASSERT_TRUE(programs) << programs.error().message;
  const auto fd = programs->program(GetParam());
  ASSERT_TRUE(fd) << fd.error().message;
  expect_few_instructions(*fd, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Programs, VerifierTest,
                         testing::Values("profd_tick", "profd_fork", "profd_exit", "profd_free",
                                         "profd_tasks", "profd_running", "profd_bpf_functions"),
                         [](const auto& program) { return std::string(program.param); });

class SwitchVerifierTest : public testing::TestWithParam<const char*> {};

TEST_P(SwitchVerifierTest, VerifiesInFewInstructions) {
  const auto programs = Programs::load(Programs::built_in(), 4096);
  ASSERT_TRUE(programs) << programs.error().message;
  const SwitchObject object(*programs);
  expect_few_instructions(object.program(GetParam()), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Programs, SwitchVerifierTest,
                         testing::Values("profd_switch", "profd_switch_fork", "profd_watch_threads",
                                         "profd_open_blocks"),
                         [](const auto& program) { return std::string(program.param); });

// Which of the two ways is used depends on the kernel.
TEST(ProgramsTest, TheProgramsOfOneWayToWatchUnmapsAreLoaded) {
  const auto programs = Programs::load(Programs::built_in(), 4096);
  ASSERT_TRUE(programs) << programs.error().message;
  const bool by_calls = programs->program("profd_munmap_call").has_value();
  EXPECT_EQ(programs->program("profd_mmap_call").has_value(), by_calls);
  EXPECT_EQ(programs->program("profd_mmap_lock").has_value(), !by_calls);
  std::cout << (by_calls ? "by the calls" : "by the address space's lock") << "\n";
}

// Those of its own programs, whose functions the kernel also reports by their descriptors.
TEST(ProgramsTest, ListsTheFunctionsOfTheProgramsThatAreLoaded) {
  const auto programs = Programs::load(Programs::built_in(), 4096);
  ASSERT_TRUE(programs) << programs.error().message;
  const auto listed = programs->list_bpf_functions();
  ASSERT_TRUE(listed) << listed.error().message;
  std::size_t compared = 0;
  for (const char* name : {"profd_tick", "profd_tasks"}) {
    const auto fd = programs->program(name);
    ASSERT_TRUE(fd) << fd.error().message;
    std::array<std::uint64_t, 256> starts{};
    std::array<std::uint32_t, 256> sizes{};
    bpf_prog_info info{};
    info.jited_ksyms = reinterpret_cast<std::uintptr_t>(starts.data());
    info.nr_jited_ksyms = starts.size();
    info.jited_func_lens = reinterpret_cast<std::uintptr_t>(sizes.data());
    info.nr_jited_func_lens = sizes.size();
    std::uint32_t bytes = sizeof(info);
    ASSERT_EQ(bpf_obj_get_info_by_fd(*fd, &info, &bytes), 0);
    for (std::size_t i = 0; i < info.nr_jited_ksyms; ++i) {
      const AddressRange expected{.start = starts.at(i), .end = starts.at(i) + sizes.at(i)};
      const auto found = std::ranges::find(*listed, expected, &BpfFunction::code);
      ASSERT_NE(found, listed->end()) << name << " " << i;
      EXPECT_TRUE(found->name.starts_with("bpf_prog_")) << found->name;
      const bool is_first = i == 0;
      EXPECT_TRUE(!is_first || found->name.ends_with(std::string("_") + name)) << found->name;
      ++compared;
    }
  }
  EXPECT_GT(compared, 2U);
}

// Where its constant stands, by the object's own types.
std::uint32_t offset_of_constant(const bpf_object* object, std::string_view name) {
  const btf* const types = bpf_object__btf(object);
  const int id = btf__find_by_name_kind(types, ".rodata", BTF_KIND_DATASEC);
  const btf_type* const section = btf__type_by_id(types, static_cast<std::uint32_t>(id));
  for (const auto& variable : std::span(btf_var_secinfos(section), btf_vlen(section))) {
    const btf_type* const type = btf__type_by_id(types, variable.type);
    if (btf__name_by_offset(types, type->name_off) == name) return variable.offset;
  }
  throw std::runtime_error("no constant " + std::string(name));
}

// Loads the programs by libbpf alone. Returns the instructions that were verified of profd_tick; 0:
// the kernel refused them.
std::uint32_t verified_with(std::uint32_t with_interpreters) {
  const auto image = Programs::built_in();
  std::vector<char> log(1 << 20);
  bpf_object_open_opts options{};
  options.sz = sizeof(options);
  options.object_name = "profd";
  options.kernel_log_buf = log.data();
  options.kernel_log_size = log.size();
  const std::unique_ptr<bpf_object, void (*)(bpf_object*)> object(
      bpf_object__open_mem(image.data(), image.size(), &options), bpf_object__close);
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, object.get()) {
    if (!std::string_view(bpf_map__name(map)).ends_with(".rodata")) continue;
    std::size_t size = 0;
    auto* const data = static_cast<const char*>(bpf_map__initial_value(map, &size));
    std::vector<char> bytes(data, data + size);
    std::memcpy(bytes.data() + offset_of_constant(object.get(), "profd_with_interpreters"),
                &with_interpreters, sizeof(with_interpreters));
    EXPECT_EQ(bpf_map__set_initial_value(map, bytes.data(), bytes.size()), 0);
  }
  if (bpf_object__load(object.get()) != 0) {
    const std::string_view text(log.data(), ::strnlen(log.data(), log.size()));
    std::cout << text.substr(text.size() > 6000 ? text.size() - 6000 : 0) << "\n";
    return 0;
  }
  bpf_prog_info info{};
  std::uint32_t bytes = sizeof(info);
  const bpf_program* const tick = bpf_object__find_program_by_name(object.get(), "profd_tick");
  EXPECT_EQ(bpf_obj_get_info_by_fd(bpf_program__fd(tick), &info, &bytes), 0);
  return info.verified_insns;
}

// Finds: user space's fallback hides that the verifier refuses the walk over interpreted frames, or
// the constant does not remove it.
TEST(ProgramsTest, LoadsWithAndWithoutInterpreters) {
  const std::uint32_t with = verified_with(1);
  const std::uint32_t without = verified_with(0);
  std::cout << with << " instructions verified, " << without << " without interpreters\n";
  EXPECT_GT(with, 0U);
  EXPECT_GT(without, 0U);
  EXPECT_LT(without, with);
}

TEST(ProgramsTest, BytesThatAreNotAnObjectAreAnError) {
  const std::string text = "this is no ELF file";
  const auto programs = Programs::load(std::as_bytes(std::span(text)), 4096);
  EXPECT_FALSE(programs);
}

}  // namespace
}  // namespace profd::test
