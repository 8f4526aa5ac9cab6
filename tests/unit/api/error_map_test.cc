#include "runtime/api/gate/error_map.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "runtime/sandbox/state/quotas.h"

namespace atl::api {
namespace {

std::string Map(Code code, Doing doing, int number = 0) {
  const ApiError mapped = MapError(Error(code, "why", number), doing);
  EXPECT_EQ(mapped.message, "why");
  return std::to_string(mapped.status) + " " + mapped.code;
}

TEST(ErrorMap, EveryCodeHasAStatusEverywhere) {
  constexpr Code kCodes[] = {Code::kInvalidArgument,   Code::kNotFound,
                             Code::kAlreadyExists,     Code::kFailedPrecondition,
                             Code::kResourceExhausted, Code::kPermissionDenied,
                             Code::kDeadlineExceeded,  Code::kUnavailable,
                             Code::kUnimplemented,     Code::kInternal};
  for (Code code : kCodes) {
    for (int doing = 0; doing < kDoings; ++doing) {
      const ApiError mapped = MapError(Error(code, "m"), static_cast<Doing>(doing));
      EXPECT_GE(mapped.status, 400);
      EXPECT_LE(mapped.status, 599);
      EXPECT_FALSE(mapped.code.empty());
    }
  }
}

TEST(ErrorMap, TheTermsOfATenantAreToldWhateverIsDone) {
  const Error quota = sandbox::QuotaError("red", {"memory", "32Gi", "31Gi", "2Gi"});
  for (int doing = 0; doing < kDoings; ++doing) {
    const ApiError mapped = MapError(quota, static_cast<Doing>(doing));
    EXPECT_EQ(mapped.status, 403);
    EXPECT_EQ(mapped.code, "KUBERNETES::QUOTA_EXCEEDED");
    EXPECT_EQ(Map(Code::kPermissionDenied, static_cast<Doing>(doing), sandbox::kByTerms),
              "403 TENANT::NOT_ALLOWED");
  }
  sandbox::CreateError refused(quota);
  refused.from_template = refused.image = refused.pool = refused.snapshot = true;
  refused.volume = wire::Volume::Kind::kObjects;
  const auto body = nlohmann::json::parse(ErrorResponse(MapError(refused)).body);
  EXPECT_EQ(body.at("code"), "KUBERNETES::QUOTA_EXCEEDED");
  EXPECT_EQ(body.at("quota"), "memory");
  EXPECT_EQ(body.at("limit"), "32Gi");
  EXPECT_EQ(body.at("used"), "31Gi");
  EXPECT_EQ(body.at("asked"), "2Gi");
}

TEST(ErrorMap, UpstreamsCodes) {
  EXPECT_EQ(Map(Code::kInvalidArgument, Doing::kCreate), "400 SANDBOX::INVALID_PARAMETER");
  EXPECT_EQ(Map(Code::kNotFound, Doing::kCreate), "404 DOCKER::SANDBOX_IMAGE_NOT_FOUND");
  EXPECT_EQ(Map(Code::kInternal, Doing::kCreate), "500 DOCKER::SANDBOX_START_FAILED");
  EXPECT_EQ(Map(Code::kUnimplemented, Doing::kCreate), "501 SANDBOX::API_NOT_SUPPORTED");
  EXPECT_EQ(Map(Code::kNotFound, Doing::kDelete), "404 DOCKER::SANDBOX_NOT_FOUND");
  EXPECT_EQ(Map(Code::kInternal, Doing::kDelete), "500 DOCKER::SANDBOX_DELETE_FAILED");
  EXPECT_EQ(Map(Code::kInvalidArgument, Doing::kRenew), "400 DOCKER::INVALID_EXPIRATION");
  EXPECT_EQ(Map(Code::kFailedPrecondition, Doing::kRenew), "409 DOCKER::INVALID_EXPIRATION");
  EXPECT_EQ(Map(Code::kUnavailable, Doing::kProxy), "502 BACKEND_CONNECTION_FAILED");
}

TEST(ErrorMap, OnlyWhatPassesIs503) {
  EXPECT_EQ(Map(Code::kUnavailable, Doing::kDelete), "503 GENERAL::UNAVAILABLE");
  for (const int lacking : {ENOSYS, EOPNOTSUPP}) {
    EXPECT_EQ(Map(Code::kUnavailable, Doing::kDelete, lacking),
              "500 DOCKER::SANDBOX_DELETE_FAILED");
    EXPECT_EQ(Map(Code::kUnavailable, Doing::kProxy, lacking), "502 BACKEND_CONNECTION_FAILED");
  }
}

TEST(ErrorMap, NoRoomHasManyFaces) {
  EXPECT_EQ(Map(Code::kResourceExhausted, Doing::kCreate), "429 SANDBOX::TOO_MANY");
  EXPECT_EQ(Map(Code::kResourceExhausted, Doing::kCreate, ENOSPC), "507 GENERAL::STORAGE_FULL");
  EXPECT_EQ(Map(Code::kResourceExhausted, Doing::kCreate, EMFILE), "503 SANDBOX::OUT_OF_RESOURCES");
  EXPECT_EQ(Map(Code::kResourceExhausted, Doing::kReadBody), "413 GENERAL::TOO_LARGE");
  EXPECT_EQ(Map(Code::kResourceExhausted, Doing::kImportImage, EMFILE),
            "503 GENERAL::OUT_OF_RESOURCES");
  EXPECT_EQ(Map(Code::kResourceExhausted, Doing::kImportImage, EDQUOT),
            "507 GENERAL::STORAGE_FULL");
}

TEST(ErrorMap, ACreateAnswersOnlyWhatTheApiNames) {
  const auto named = [](int status) {
    return status == 400 || status == 403 || status == 409 || status == 429 || status == 500;
  };
  for (int code = 0; code <= static_cast<int>(Code::kInternal); ++code) {
    for (const int number : {0, EMFILE, ENOSPC, ENOSYS}) {
      for (int why = 0; why < 6; ++why) {
        sandbox::CreateError error(Error(static_cast<Code>(code), "m", number));
        if (why == 1) error.snapshot = true;
        if (why == 2) error.image = true;
        if (why == 3) error.pool = true;
        if (why == 4) error.from_template = true;
        if (why == 5) error.volume = wire::Volume::Kind::kObjects;
        const ApiError mapped = MapError(error);
        EXPECT_TRUE(named(mapped.status)) << mapped.status << " " << mapped.code;
        EXPECT_FALSE(mapped.code.empty());
      }
    }
  }
  EXPECT_EQ(MapError(sandbox::CreateError(Error(Code::kNotFound, "m"))).status, 400);
  EXPECT_EQ(MapError(sandbox::CreateError(Error(Code::kUnimplemented, "m"))).status, 400);
  EXPECT_EQ(MapError(sandbox::CreateError(Error(Code::kResourceExhausted, "m", ENOSPC))).status,
            500);
  const ApiError again = MapError(sandbox::CreateError(Error(Code::kUnavailable, "m")));
  EXPECT_EQ(again.status, 429);
  EXPECT_GT(again.retry_after_seconds, 0);
}

TEST(ErrorMap, TheResponseSaysWhenToComeAgain) {
  const http::Response response =
      ErrorResponse(MapError(Error(Code::kResourceExhausted, "full"), Doing::kCreate));
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(response.headers.Get("Retry-After"), "1");
  const auto body = nlohmann::json::parse(response.body);
  EXPECT_EQ(body.size(), 2U);
  EXPECT_EQ(body.at("message"), "full");
}

}  // namespace
}  // namespace atl::api
