#include "ctl/views/short_names.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace profd {
namespace {

using Names = std::vector<std::pair<std::string, std::string>>;  // full, short

void expect_short(const Names& names) {
  for (const auto& [full, expected] : names) EXPECT_EQ(short_name(full), expected) << full;
}

TEST(ShortNames, CppLosesParametersTemplateArgumentsAndReturnTypes) {
  expect_short({
      {"main", "main"},
      {"memcpy", "memcpy"},
      {"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::_M_append",
       "std::string::_M_append"},
      {"std::__1::basic_string<char, std::__1::char_traits<char>>::append(char const*)",
       "std::string::append"},
      {"std::vector<int, std::allocator<int> >::push_back(int const&)", "std::vector::push_back"},
      {"void parse<int, std::vector<long> >(std::vector<int> const&)", "parse"},
      {"std::map<std::string, int>::operator[](std::string const&)", "std::map::operator[]"},
      {"ns::Stream& ns::operator<< <int>(ns::Stream&, int)", "ns::operator<<"},
      {"Matrix::operator()(int, int) const", "Matrix::operator()"},
      {"bool operator<(Key const&, Key const&)", "operator<"},
      {"Pointer<Node>::operator->() const", "Pointer::operator->"},
      {"operator new(unsigned long)", "operator new"},
      {"Wrapper::operator bool() const", "Wrapper::operator bool"},
      {"(anonymous namespace)::Cache::get(int)", "(anonymous namespace)::Cache::get"},
      {"net::(anonymous namespace)::serve(int)", "net::(anonymous namespace)::serve"},
      {"app::run()::{lambda(int)#1}::operator()(int) const", "app::run::{lambda#1}::operator()"},
      {"std::function<void (int)>::operator()(int) const", "std::function::operator()"},
      {"Queue<T>::~Queue()", "Queue::~Queue"},
      {"std::unordered_map<int, std::pair<int, int> >::find", "std::unordered_map::find"},
  });
}

TEST(ShortNames, RustLosesHashesAndGenericArguments) {
  expect_short({
      {"core::ptr::drop_in_place<alloc::vec::Vec<u8>>", "core::ptr::drop_in_place"},
      {"tokio::runtime::task::poll::h0123456789abcdef", "tokio::runtime::task::poll"},
      {"<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop", "alloc::vec::Vec::drop"},
      {"<T as core::convert::Into<U>>::into", "core::convert::Into::into"},
      {"<&mut W as core::fmt::Write>::write_str", "core::fmt::Write::write_str"},
      {"core::iter::Iterator::map::<u8>", "core::iter::Iterator::map"},
      {"app::main::{{closure}}", "app::main::{{closure}}"},
      {"app::run::{closure#0}", "app::run::{closure#0}"},
  });
}

TEST(ShortNames, GoLosesImportPathsAndTypeArguments) {
  expect_short({
      {"main.main", "main.main"},
      {"runtime.mallocgc", "runtime.mallocgc"},
      {"github.com/x/store.(*Map).Get", "store.(*Map).Get"},
      {"github.com/x/store.(*Map[go.shape.int]).Get", "store.(*Map).Get"},
      {"encoding/json.(*decodeState).object", "json.(*decodeState).object"},
      {"main.main.func1", "main.main.func1"},
      {"time.Time.String", "time.Time.String"},
  });
}

TEST(ShortNames, JavaLosesPackagesAndParameters) {
  expect_short({
      {"int java.util.HashMap.getNode(java.lang.Object)", "HashMap.getNode"},
      {"java.util.HashMap.getNode", "HashMap.getNode"},
      {"Ljava/util/HashMap;getNode(Ljava/lang/Object;)V", "HashMap.getNode"},
      {"Ljava/util/HashMap;::getNode", "HashMap.getNode"},
      {"java.util.stream.ReduceOps$3ReducingSink.accept(java.lang.Object)",
       "ReduceOps$3ReducingSink.accept"},
  });
}

TEST(ShortNames, NamesOfCodeWithoutFunctionStayAsTheyAre) {
  expect_short({{"[libc.so.6]", "[libc.so.6]"},
                {"[over share]", "[over share]"},
                {"[unknown]", "[unknown]"},
                {"", ""}});
}

TEST(ShortNames, HostileNamesEndInTime) {
  for (const char c : {'<', '(', '[', '>', ')', ' ', '{', ':', ';', '/', '.', 'L'}) {
    for (const std::size_t length :
         {std::size_t{1}, std::size_t{7}, std::size_t{4000}, std::size_t{1} << 20}) {
      EXPECT_FALSE(short_name(std::string(length, c)).empty()) << c << length;
    }
  }
  for (const char* const part : {"<a as ", "operator", "operator<", "{lambda(", "(*", "::<", "->",
                                 "L;", "<impl for ", "::h0123456789abcdef"}) {
    std::string name;
    while (name.size() < 4000) name += part;
    EXPECT_FALSE(short_name(name).empty()) << part;
  }
}

}  // namespace
}  // namespace profd
