// Templates of the standard library, inlined many levels deep; functions without external linkage;
// methods of a local class and lambdas.

#include <algorithm>
#include <map>
#include <string>
#include <vector>

extern "C" long mix_numbers(const long* numbers, long count);

namespace {

struct Word {
  std::string text;
  long count = 0;
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (is_letter(c)) {
      words.back().push_back(c);
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  return words;
}

}  // namespace

namespace corpus {

template <class T>
class Ranking {
 public:
  void add(const T& key) { ++counts_[key]; }
  std::vector<Word> by_count() const {
    struct Order {
      bool by_text;
      bool operator()(const Word& a, const Word& b) const {
        return by_text && a.count == b.count ? a.text < b.text : a.count > b.count;
      }
    };
    std::vector<Word> words;
    for (const auto& [text, count] : counts_) words.push_back({text, count});
    std::stable_sort(words.begin(), words.end(), Order{true});
    return words;
  }

 private:
  std::map<T, long> counts_;
};

long rank(const std::string& text) {
  Ranking<std::string> ranking;
  const std::vector<std::string> words = split(text);
  std::for_each(words.begin(), words.end(), [&ranking](const std::string& word) {
    if (word.size() > 1) ranking.add(word);
  });
  std::vector<long> counts;
  for (const Word& word : ranking.by_count()) counts.push_back(word.count);
  try {
    if (counts.at(0) > 100) throw std::string("many");
  } catch (const std::string& reason) {
    return static_cast<long>(reason.size());
  }
  return mix_numbers(counts.data(), static_cast<long>(counts.size()));
}

}  // namespace corpus

int main(int argc, char** argv) {
  std::string text;
  for (int i = 0; i < argc; ++i) text += argv[i] + std::string(" ");
  return corpus::rank(text) > 0 ? 0 : 1;
}
