// Every field travels: what is set comes back, and each byte that is missing is missed.
#include <gtest/gtest.h>

#include "runtime/wire/plan.h"
#include "runtime/wire/spawner.h"
#include "runtime/wire/start.h"
#include "tests/support/members.h"

namespace atl::wire {
namespace {

// Gives each field a value that no other has.
struct Fill {
  template <typename... T>
  void operator()(T&... values) {
    (Set(values), ...);
  }
  template <typename T>
  void List(std::vector<T>& list, size_t) {
    for (int i = 0; i < 2; ++i) Set(list.emplace_back());
  }
  template <typename T>
  void Set(T& value) {
    if constexpr (requires { T::Fields(value, *this); }) {
      T::Fields(value, *this);
    } else if constexpr (std::is_same_v<T, bool>) {
      value = !value;
    } else if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(1);
    } else if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(++last);
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = "text" + std::to_string(++last);
    } else {
      for (auto& item : value) Set(item);
    }
  }
  uint32_t last = 1000;
};

struct Count {
  template <typename... T>
  void operator()(const T&...) {
    fields += sizeof...(T);
  }
  template <typename T>
  void List(const std::vector<T>&, size_t) {
    ++fields;
  }
  size_t fields = 0;
};

template <typename T>
class Fields : public testing::Test {};
using Messages = testing::Types<Plan, Volume, VolumeUse, Request, SandboxRecord, Reply,
                                StartMessage, StartReport, cgroup::Limits>;
TYPED_TEST_SUITE(Fields, Messages);

TYPED_TEST(Fields, AreAllListed) {
  Count count;
  const TypeParam message;
  TypeParam::Fields(message, count);
  EXPECT_EQ(count.fields, Members<TypeParam>());
}

TYPED_TEST(Fields, Travel) {
  TypeParam message;
  Fill().Set(message);
  const std::string bytes = EncodeFields(message);
  EXPECT_NE(bytes, EncodeFields(TypeParam()));
  TypeParam decoded;
  ASSERT_TRUE(DecodeFields(bytes, &decoded));
  EXPECT_EQ(EncodeFields(decoded), bytes);
  for (size_t size = 0; size < bytes.size(); ++size) {
    TypeParam cut;
    EXPECT_FALSE(DecodeFields(std::string_view(bytes).substr(0, size), &cut)) << size;
  }
  TypeParam longer;
  EXPECT_FALSE(DecodeFields(bytes + '\0', &longer));
}

// So that it can be told which protocol is spoken here. Nothing else is taken from it.
TEST(Request, AHelloOfAnyProtocolIsRead) {
  Request request;
  request.number = 7;
  request.slot = 3;
  const std::string bytes = request.Encode();
  for (const std::string& other : {bytes, bytes + "more", bytes.substr(0, 9)}) {
    const auto read = DecodeRequest(other);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->number, 7U);
    EXPECT_EQ(read->type, RequestType::kHello);
    EXPECT_EQ(read->slot, 0U);
  }
  EXPECT_FALSE(DecodeRequest(bytes.substr(0, 8)));
  request.type = RequestType::kPing;
  EXPECT_TRUE(DecodeRequest(request.Encode()));
  EXPECT_FALSE(DecodeRequest(request.Encode() + "more"));
}

}  // namespace
}  // namespace atl::wire
