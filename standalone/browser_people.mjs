// The dashboard for people with a token of their own: signing in with it, what the role leaves on the pages, and the end.
import { SECONDS, check, flock, must, until } from "./browser_checking.mjs";
import { violations } from "./browser_access.mjs";
import { arrives, box, write } from "./browser_channels.mjs";
import { visit } from "./browser_window.mjs";

const field = (page) => page.getByLabel("Your own token");

export async function signIn(page, token) {
    await field(page).fill(token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.waitForLoadState();
}

async function add(name, ...limits) {
    await must(`add ${name}`, "person", "add", name, ...limits);
    return (await flock("person", "token", name)).out.trim();
}

export async function people(stage, browsers) {
    const alone = await (await browsers.stranger()).newPage();
    await visit(stage, alone, "/dashboard");
    check("with one person there is no field for a token", (await field(alone).count()) === 0);

    const viewer = await add("vera", "--role", "viewer");
    const member = await add("mel", "--role", "member");
    const page = await (await browsers.stranger()).newPage();
    await visit(stage, page, "/dashboard");
    check("with more of them there is one", (await field(page).count()) === 1, await page.content());
    check("the page with the field: nothing for axe", ...(await violations(page)));
    await signIn(page, `flk_${"0".repeat(64)}`);
    check("a token of nobody lets nobody in", await page.getByText("This token was revoked").isVisible(), await page.content());
    await signIn(page, viewer);
    const isIn = await until(SECONDS, async () => (await page.locator("nav[aria-label=Pages]").count()) === 1);
    check("a token of a person signs its browser in", isIn, await page.content());
    check("the token is not in the address", !page.url().includes("flk_"), page.url());

    await visit(stage, page, "/dashboard/channels/work");
    check("who only looks has no box for messages", (await box(page).count()) === 0);
    check("nothing for axe without it", ...(await violations(page)));
    await visit(stage, page, "/dashboard");
    check("nor buttons at agents", (await page.getByRole("button", { name: "Freeze" }).count()) === 0);
    check("nor the page of the machine", (await page.locator('nav a[href="/dashboard/machine"]').count()) === 0);
    const refused = await page.evaluate(async () => {
        const headers = {
            "X-Flock-CSRF": document.querySelector('meta[name="csrf-token"]').content,
            "Content-Type": "application/json",
        };
        return (await fetch("/api/freeze", { method: "POST", headers, body: "{}" })).status;
    });
    check("a script of the page is refused what the role does not allow", refused === 403, refused);

    const other = await (await browsers.stranger()).newPage();
    await visit(stage, other, "/dashboard");
    await signIn(other, member);
    await visit(stage, other, "/dashboard/channels/work");
    await write(other, "written by a member");
    await arrives(other, "written by a member");
    const written = (await stage.messages("work")).find((one) => one.content === "written by a member");
    check("what a member writes has the member's name", written?.author === "human:mel", written);

    await must("remove vera", "person", "remove", "vera");
    await must("remove mel", "person", "remove", "mel");
    const isOut = await until(SECONDS, async () => {
        // The page itself may be on its way to where one signs in.
        const answer = await page.goto(`${stage.origin}/dashboard`).catch(() => null);
        return answer?.status() === 401;
    });
    check("a browser ends with its person", isOut, await page.content());
}
