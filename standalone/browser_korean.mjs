// The dashboard in a browser that prefers Korean.
import { SECONDS, check, must, same, until } from "./browser_checking.mjs";
import { violations } from "./browser_access.mjs";
import { HELPER } from "./browser_stage.mjs";
import { textOf, visit } from "./browser_window.mjs";

const PAGES = [
    ["/dashboard", "팀"],
    ["/dashboard/channels", "채널"],
    ["/dashboard/sessions", "세션"],
    ["/dashboard/projects", "프로젝트"],
    ["/dashboard/requests", "요청"],
    ["/dashboard/cost", "비용"],
    ["/dashboard/graph", "관계"],
    ["/dashboard/machine", "시스템"],
    ["/dashboard/people", "사람"],
    ["/dashboard/search", "검색"],
];

export async function korean(stage, browsers) {
    await stage.request(`korean${Date.now()}`);
    await stage.post("work", "안녕하세요");
    // The navigation has the page of people only if there are some.
    await must("a person", "person", "add", "kora", "--role", "member", "--budget-usd", "2");
    await must("with a token", "person", "token", "kora", "--expires", "7d");
    const page = await browsers.page("/dashboard", { locale: "ko-KR" });
    const chat = await page.locator(`[data-agent="${HELPER}"] .actions a.button`).first().getAttribute("href");
    const more = [
        "/dashboard/channels/work",
        chat,
        "/dashboard/search?q=안녕하세요",
        "/dashboard/search?q=안녕하세요&in=vaults",
        "/dashboard/search?q=%22",
        "/dashboard/search/messages?q=안녕하세요",
        "/dashboard/requests?state=all",
        "/dashboard/nothing",
    ];
    for (const path of [...PAGES.map(([one]) => one), ...more]) await spoken(stage, page, path);
    await scripted(stage, page);
    await must("everybody is thawed", "thaw", HELPER);
    await must("the person is removed", "person", "remove", "kora");

    const stranger = await (await browsers.stranger({ locale: "ko-KR" })).newPage();
    await visit(stage, stranger, "/dashboard");
    check("a stranger is told in Korean how to sign in", /로그인/.test(await textOf(stranger)), await textOf(stranger));
    check("as a Korean page", (await stranger.evaluate(() => document.documentElement.lang)) === "ko");
    check("with nothing for axe", ...(await violations(stranger)));
    for (const [locale, wanted] of [
        ["de-DE", "en"],
        ["en-US", "en"],
        ["ko", "ko"],
    ]) {
        const other = await browsers.page("/dashboard", { locale });
        const found = await other.evaluate(() => document.documentElement.lang);
        check(`a browser with ${locale} gets ${wanted}`, found === wanted, found);
    }
}

// One page: its language, its navigation, and no words of the other language on what can be used.
async function spoken(stage, page, path) {
    await visit(stage, page, path);
    const found = await page.evaluate(() => ({
        language: document.documentElement.lang,
        links: [...document.querySelectorAll("header nav a")].map((one) => [one.getAttribute("href"), one.textContent.trim()]),
        // What has a text of the page's own.
        foreign: [
            ...document.querySelectorAll(
                "button, summary, label, dt, dd > strong, thead th, nav, [role=search] *, .notice p, .empty",
            ),
        ]
            // Keys are named as on the keyboard.
            // So are agents.
            .filter((one) => !one.closest("details.call, details.kept") && !one.querySelector("kbd") && !one.matches("option:not([value])"))
            .map((one) => (one.textContent.trim() || one.getAttribute("aria-label")) ?? "")
            .filter((text) => /[a-z]{2}/i.test(text) && !/[가-힣]/.test(text)),
        names: [...document.querySelectorAll("main [aria-label]")].map((one) => one.ariaLabel),
    }));
    check(`${path}: the page says that it is Korean`, found.language === "ko", found.language);
    same(
        `${path}: the navigation is Korean`,
        PAGES.map((one) => one.join(" ")),
        found.links.map((one) => one.join(" ")),
    );
    const foreign = found.foreign.filter((text) => !/^(CSV|SHA-256)/.test(text));
    check(`${path}: what can be used has Korean words`, foreign.length === 0, foreign);
    const names = found.names.filter((name) => !/[가-힣]/.test(name));
    check(`${path}: so have the names for screen readers`, names.length === 0, names);
    for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme });
        check(`${path}, ${colorScheme}: nothing for axe`, ...(await violations(page)));
    }
    await page.setViewportSize({ width: 320, height: 800 });
    const width = await page.evaluate(() => document.scrollingElement.scrollWidth);
    check(`${path} fits a width of 320 px`, width <= 320, width);
    await page.setViewportSize({ width: 1280, height: 800 });
}

// What the scripts say.
async function scripted(stage, page) {
    await visit(stage, page, "/dashboard/channels/work");
    const announced = () => page.locator("#announce").textContent();
    await page.locator("#compose").fill("한국어로 씁니다");
    await page.locator("form.compose button:not([type=button])").click();
    check(
        "what was sent is announced in Korean",
        await until(SECONDS, async () => /보냈습니다/.test(await announced())),
        await announced(),
    );
    await visit(stage, page, "/dashboard");
    await page.locator(`[data-agent="${HELPER}"]`).getByRole("button", { name: "정지", exact: true }).click();
    check("a freeze as well", await until(SECONDS, async () => /정지/.test(await announced())), await announced());
    const ago = async () => (await page.locator("time[data-ago]").allTextContents()).filter((text) => !/[가-힣]/.test(text));
    check("and how long ago something was", await until(SECONDS, async () => (await ago()).length === 0), await ago());
    await page.keyboard.press("?");
    const dialog = page.getByRole("dialog");
    check(
        "so is the dialog of keys",
        await until(SECONDS, async () => /[가-힣]/.test(await dialog.innerText())),
        await textOf(page),
    );
    check("with nothing for axe", ...(await violations(page)));
    await page.keyboard.press("Escape");
}
