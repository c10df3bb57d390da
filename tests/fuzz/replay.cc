// Stands in for libFuzzer: runs each seed, each seed cut short, and a fixed number of mutations of
// it. The same inputs every time, so a failure is found again.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr int kMutations = 20000;
constexpr std::size_t kCuts = 500;

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

// Changes 1 to 4 places: a byte set, 8 bytes set to an extreme, a piece doubled or dropped.
std::string mutated(std::string input, std::mt19937_64& random) {
  for (auto changes = 1 + random() % 4; changes > 0 && !input.empty(); --changes) {
    const std::size_t at = random() % input.size();
    switch (random() % 4) {
      case 0:
        input[at] = static_cast<char>(random());
        break;
      case 1:
        input.replace(at, 8, 8, random() % 2 == 0 ? '\xff' : '\0');
        break;
      case 2:
        input.insert(at, input.substr(random() % input.size(), random() % 64));
        break;
      default:
        input.erase(at, random() % 64);
    }
  }
  return input;
}

void replay(const std::string& seed, std::mt19937_64& random) {
  run(seed);
  for (std::size_t cut = 0; cut < kCuts; ++cut) run(seed.substr(0, seed.size() * cut / kCuts));
  for (int i = 0; i < kMutations; ++i) run(mutated(seed, random));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  // Sorted: the order of a directory is another one in each checkout.
  std::set<std::filesystem::path> seeds;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) seeds.insert(entry.path());
  for (const std::filesystem::path& seed : seeds) {
    std::mt19937_64 random(1);  // NOLINT: the same every time
    std::ifstream file(seed, std::ios::binary);
    replay({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}, random);
  }
  std::printf("replayed %zu seeds\n", seeds.size());
  return seeds.empty() ? 1 : 0;
}
