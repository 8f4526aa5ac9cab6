#include "images/image_name.h"

#include <gtest/gtest.h>

namespace atl::images {
namespace {

TEST(ImageName, NormalisesSpellings) {
  const std::pair<const char*, const char*> cases[] = {
      {"python", "python:latest"},
      {"python:3.11", "python:3.11"},
      {"docker.io/library/python:3.11", "python:3.11"},
      {"index.docker.io/library/python", "python:latest"},
      {"docker.io/opensandbox/code-interpreter:v1", "opensandbox/code-interpreter:v1"},
      {"registry.example.org:5000/a/b_c:T-1.x", "registry.example.org:5000/a/b_c:T-1.x"},
      {"localhost/x", "localhost/x:latest"},
  };
  for (const auto& [name, wanted] : cases) {
    EXPECT_EQ(NormaliseImageName(name).value_or("error"), wanted) << name;
    EXPECT_EQ(NormaliseImageName(wanted).value_or("error"), wanted) << name;
  }
}

TEST(ImageName, RefusesTheRest) {
  for (const std::string& name : {std::string(),
                                  std::string("Python"),
                                  std::string("python:"),
                                  std::string(":tag"),
                                  std::string("a//b"),
                                  std::string("/a"),
                                  std::string("a/"),
                                  std::string("../a"),
                                  std::string("a/../b"),
                                  std::string("a..b"),
                                  std::string("-a"),
                                  std::string("a:b:c"),
                                  std::string("a:-x"),
                                  std::string("a b"),
                                  std::string("a\nb"),
                                  std::string("a\0b", 3),
                                  std::string("python@sha256:00"),
                                  std::string("reg:port/a"),
                                  std::string(256, 'a'),
                                  std::string("caf\xc3\xa9"),
                                  "a:" + std::string(129, 'x')}) {
    auto result = NormaliseImageName(name);
    ASSERT_FALSE(result) << name;
    EXPECT_EQ(result.error().code(), Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace atl::images
