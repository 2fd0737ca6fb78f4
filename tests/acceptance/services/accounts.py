"""An app with pages for users alone, and for administrators, as Google's documentation has them."""

from __future__ import annotations

import os
from pathlib import Path

from flask import Flask, redirect, request
from google.appengine.api import taskqueue, users, wrap_wsgi_app
from werkzeug.wrappers import Response

app = Flask(__name__)
legacy = os.environ.get("READ_GAE_CONTEXT_FROM_OS_ENVIRON") != "false"
app.wsgi_app = wrap_wsgi_app(app.wsgi_app, use_legacy_context_mode=legacy)  # type: ignore[method-assign]


@app.get("/")
def home() -> str:
    user = users.get_current_user()
    if user is None:
        return f'nobody <a href="{users.create_login_url("/account?tab=1")}">Sign in</a>'
    role = "admin" if users.is_current_user_admin() else "user"
    out = users.create_logout_url("/")
    return f'{user.nickname()} {user.email()} {user.user_id()} {role} <a href="{out}">Sign out</a>'


@app.get("/account")
def account() -> str | Response:
    if users.get_current_user() is None:
        return redirect(users.create_login_url(request.url))
    return f"account of {users.get_current_user().email()}, {request.full_path}"


@app.post("/task")
def task() -> str:
    with Path("task.txt").open("a") as file:
        file.write(f"{users.get_current_user()}\n")
    return ""


@app.post("/add")
def add() -> str:
    taskqueue.add(url="/task")
    return ""


if __name__ == "__main__":
    app.run(port=int(os.environ["PORT"]))
