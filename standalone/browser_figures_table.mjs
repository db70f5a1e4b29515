// The table of figures: each with its limit, the median and all measurements, and whether it is within the limit.

const SHOWN = {
    ms: (value) => `${value.toFixed(value < 10 ? 2 : 0)} ms`,
    task: (value) => (value > 0 ? `${value.toFixed(0)} ms` : "none"),
    KB: (value) => `${(value / 1_000).toFixed(1)} KB`,
    MB: (value) => `${(value / 1e6).toFixed(1)} MB`,
    MiB: (value) => `${(value / 2 ** 20).toFixed(1)} MiB`,
    "%": (value) => `${value.toFixed(1)} %`,
};

export class Figures {
    constructor(rounds) {
        this.rounds = rounds;
        this.rows = [];
        this.remarks = [];
    }

    // Adds a figure, whose median must be at most `limit`; without one it is for information. `unit` is a key of SHOWN.
    add(name, unit, values, limit) {
        const show = SHOWN[unit];
        const middle = median(values);
        const verdict = limit === undefined ? "" : middle <= limit ? "ok" : "MISSED";
        const bound = limit === undefined ? "" : show(limit);
        this.row([name, bound, middle === undefined ? "" : show(middle), values.map(show).join(", "), verdict]);
    }

    // Adds a row with the texts of its cells.
    row(cells) {
        this.rows.push(cells);
        console.log(`   ${cells[0]}: ${cells[3]} ${cells[4]}`);
    }

    // Adds a line below the table, such as the parts of a time.
    remark(text) {
        this.remarks.push(text);
        console.log(`   ${text}`);
    }

    // Prints the table in Markdown, and the remarks. Returns the number of figures that miss their limits.
    print() {
        console.log(`| figure | limit | median of ${this.rounds} | all | |\n|---|---|---|---|---|`);
        for (const cells of this.rows) console.log(`| ${cells.join(" | ")} |`);
        if (this.remarks.length) console.log("");
        for (const text of this.remarks) console.log(`- ${text}`);
        return this.rows.filter((cells) => cells.at(-1) === "MISSED").length;
    }
}

export function median(values) {
    return [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) / 2)];
}
