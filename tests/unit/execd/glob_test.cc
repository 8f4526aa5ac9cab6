#include "execd/files/glob.h"

#include <gtest/gtest.h>

namespace atl::execd {
namespace {

bool Matches(std::string_view pattern, std::string_view name) {
  const auto glob = Glob::Parse(pattern);
  EXPECT_TRUE(glob) << pattern;
  return glob && glob->Matches(name);
}

TEST(Glob, Elements) {
  for (const auto& [pattern, name, wanted] :
       std::initializer_list<std::tuple<std::string_view, std::string_view, bool>>{
           {"*", "", true},
           {"**", "abc", true},
           {"*.txt", "a.txt", true},
           {"*.txt", "a.txt.gz", false},
           {"a*b*c", "aXbYbZc", true},
           {"a*b*c", "aXbYb", false},
           {"?", "\xC3\xA9", true},
           {"??", "\xC3\xA9", false},
           {"[a-c]x", "bx", true},
           {"[!a-c]x", "bx", false},
           {"[^a-c]x", "dx", true},
           {"[]]", "]", true},
           {"[\\]]", "]", true},
           {"\\*", "*", true},
           {"\\*", "a", false},
           {"{a,b}c", "bc", true},
           {"{a,{b,d}e}c", "dec", true},
           {"{a,}c", "c", true},
           {"[{]x", "{x", true},
           {"\\{a", "{a", true}}) {
    EXPECT_EQ(Matches(pattern, name), wanted) << pattern << " on " << name;
  }
}

TEST(Glob, RefusesWhatIsNotOne) {
  for (const std::string_view pattern : {"[", "[a", "{", "{a,b", "a\\", "[!]"}) {
    EXPECT_FALSE(Glob::Parse(pattern)) << pattern;
  }
}

TEST(Glob, BracesAreBounded) {
  std::string pattern;
  for (int i = 0; i < 20; ++i) pattern += "{a,b}";
  EXPECT_FALSE(Glob::Parse(pattern));
}

}  // namespace
}  // namespace atl::execd
