"""The JSON of the page People."""

from pydantic import BaseModel, Field

from memory_mcp.server.rest.shapes import RequestBody
from memory_mcp.services.access import Plan
from memory_mcp.services.access.sign_ins import MAX_PASSWORD_BYTES, MIN_PASSWORD_CHARS
from memory_mcp.services.access.users import NAME


class UserShown(BaseModel):
    name: str
    plan: Plan
    requests_a_minute: int | None = Field(description="Where --rate-limits is on; null: any number.")
    created_at: str
    is_owner: bool
    is_signed_in: bool = Field(description="Whether a browser is signed in as this user now.")
    has_password: bool


class UsersShown(BaseModel):
    users: list[UserShown]
    plans: dict[Plan, int | None] = Field(description="The requests a minute of each plan; null: any number.")


class NewUser(RequestBody):
    name: str = Field(json_schema_extra={"pattern": f"^{NAME.pattern}$"})  # Users.add says in words what is wrong
    plan: Plan = "community"


class NewPlan(RequestBody):
    plan: Plan


class NewPassword(RequestBody):
    password: str = Field(
        description=f"At most {MAX_PASSWORD_BYTES} bytes.", min_length=MIN_PASSWORD_CHARS, max_length=MAX_PASSWORD_BYTES
    )


class SignInLink(BaseModel):
    user: str
    link: str


class UserRemoved(BaseModel):
    name: str
    data_deleted: bool
