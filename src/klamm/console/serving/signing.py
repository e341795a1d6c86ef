"""Signing in and out: by a form, or by a provider of OpenID Connect."""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from klamm.client.aio.cluster import Client
from klamm.client.security.tokens import checked
from klamm.console.access.oidc import Known, Pending, Provider
from klamm.console.access.roles import Role
from klamm.console.access.sessions import Session
from klamm.console.problems import Problem
from klamm.console.serving.answers import html, set_cookie
from klamm.console.serving.site import Site

CALLBACK: Final = "/sign-in/oidc/callback"
_FORM_MAX: Final = 8_192
_USER_MAX: Final = 256
_CODE_MAX: Final = 4_096


class Signing:
    """The requests by which somebody becomes known, or unknown again."""

    def __init__(self, site: Site) -> None:
        self.site = site
        wanted = site.options.oidc
        self._provider = Provider(wanted, self._redirect_uri) if wanted else None

    def routes(self) -> list[Route]:
        """Their addresses."""
        found = [
            Route("/sign-in", self.page),
            Route("/sign-in", self.sign_in, methods=["POST"]),
            Route("/sign-out", self.sign_out, methods=["POST"]),
        ]
        if self._provider is not None:
            found += [Route("/sign-in/oidc", self.leave), Route(CALLBACK, self.come_back)]
        return found

    async def page(self, request: Request) -> Response:
        """The form, and the way to the provider."""
        session = self.site.session_of(request)
        if session is None:
            session = self.site.sessions.begin(self.site.options.anonymous)
        return self._form(session)

    def _form(self, session: Session, fault: str = "", status: int = 200) -> Response:
        v = {
            "fault": fault,
            "by_password": self.site.accounts.exist,
            "by_oidc": self._provider is not None,
        }
        answer = html(self.site, session, "sign-in", "Sign in", v=v, api="", want="")
        answer.status_code = status
        return answer

    async def sign_in(self, request: Request) -> Response:
        """Takes the form; a wrong password says no more than that."""
        session = self.site.session_of(request)
        form = await _form(request)
        if session is None or not session.is_token(form.get("token")):
            raise Problem(403, "the form is too old; reload it")
        address = _address(request)
        user = form.get("user", "")[:_USER_MAX]
        if not self.site.sessions.may_try(address, user):
            raise Problem(429, "too many tries; wait a minute")
        try:
            role, client = await self.site.accounts.sign_in(user, form.get("password", ""))
        except Problem as problem:
            self.site.audit.note(who=user[:100], **{"from": address}, outcome="refused")
            return self._form(session, problem.detail, problem.status)
        return self._signed_in(request, session, user, role, client)

    def _signed_in(
        self, request: Request, old: Session, user: str, role: Role, client: Client | None
    ) -> Response:
        """A session of its own: whoever had the old one's id has nothing of the new one."""
        self.site.sessions.end(old)
        made = self.site.sessions.begin(role, user, client)
        told = {"who": user[:200], "from": _address(request)}
        self.site.audit.note(**told, outcome=f"signed in as {role.word}")
        answer = RedirectResponse(f"{self.site.root}/", status_code=303)
        set_cookie(self.site, answer, made)
        return answer

    async def sign_out(self, request: Request) -> Response:
        """Ends the session and its streams."""
        session = self.site.session_of(request)
        form = await _form(request)
        if session is None or not session.is_token(form.get("token")):
            raise Problem(403, "the form is too old; reload it")
        self.site.sessions.end(session)
        if session.client is not None:
            await session.client.close()
        answer = RedirectResponse(f"{self.site.root}/sign-in", status_code=303)
        answer.delete_cookie(
            self.site.cookie, secure=self.site.options.is_encrypted, httponly=True, samesite="lax"
        )
        return answer

    # OpenID Connect

    def _redirect_uri(self) -> str:
        options = self.site.options
        base = options.public_url
        if base is None:
            host = f"[{options.host}]" if ":" in options.host else options.host
            base = f"{'https' if options.tls_cert else 'http'}://{host}:{options.port}"
        return f"{base.rstrip('/')}{options.root}{CALLBACK}"

    async def leave(self, request: Request) -> Response:
        """Sends a browser to the provider."""
        assert self._provider is not None, "there would be no such address"
        session = self.site.session_of(request)
        if session is None:
            session = self.site.sessions.begin(self.site.options.anonymous)
        session.pending = Pending.new()
        where = await self._provider.address(session.pending)
        answer = RedirectResponse(where, status_code=303)
        set_cookie(self.site, answer, session)
        return answer

    async def come_back(self, request: Request) -> Response:
        """Takes the provider's answer; a sign-in is answered once."""
        assert self._provider is not None, "there would be no such address"
        session = self.site.session_of(request)
        said = request.query_params
        pending = session.pending if session else None
        if session is None or pending is None or not pending.is_answered_by(said.get("state", "")):
            raise Problem(403, "this is not the answer to a sign-in of yours; begin again")
        session.pending = None
        address = _address(request)
        try:
            if "iss" in said and said["iss"] != self._provider.options.issuer:
                raise Problem(401, "another provider has answered")
            code = said.get("code", "")
            if not code or len(code) > _CODE_MAX:
                raise Problem(401, f"the provider says no: {said.get('error', 'no code')[:200]}")
            known = await self._provider.known(pending, code)
            client = await self._client(known)
        except Problem as problem:
            self.site.audit.note(who="", **{"from": address}, outcome=f"refused: {problem.detail}")
            return self._form(session, problem.detail, problem.status)
        return self._signed_in(request, session, known.user, known.role, client)

    async def _client(self, known: Known) -> Client | None:
        """A connection with the token, if the cluster wants to know who somebody is."""
        accounts = self.site.accounts
        if not accounts.is_secured or accounts.settings is None:
            return None
        token = checked(known.access_token.encode(), "the provider")
        security = replace(accounts.settings.security, token=lambda: token)
        return await accounts.reached(known.user, security)


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


async def _form(request: Request) -> dict[str, str]:
    body = (await request.body())[:_FORM_MAX].decode("utf-8", "replace")
    return {name: values[-1] for name, values in parse_qs(body, keep_blank_values=True).items()}


def host_of(url: str | None) -> str:
    """The host of a public address."""
    return (urlsplit(url).hostname or "") if url else ""
